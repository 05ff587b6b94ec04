"""Isolation: what a command that is isolated can't do, and that none runs with less than was asked for."""

import dataclasses
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from perdure.definitions.kinds.bash import isolation
from tests.definitions.kinds.bash.command_runner import CommandRunner

PROBE = "from perdure.definitions.kinds.bash.isolation import isolate; from pathlib import Path; import sys; isolate('all', Path(sys.argv[1]))"


@pytest.fixture(scope="session", autouse=True)
def isolating(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Skip where the system does not do it."""
    probe = [sys.executable, "-c", PROBE, str(tmp_path_factory.mktemp("probe"))]
    done = subprocess.run(probe, env={"PYTHONPATH": os.pathsep.join(sys.path)}, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"this system isolates nothing: {done.stderr.splitlines()[-1]}")


@pytest.mark.slow
async def test_nothing_can_be_written_but_to_its_own_directory(shell: CommandRunner, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    command = f"""
        echo in > here && mkdir -p a/b && mv here a/b && cat a/b/here
        echo out > {tmp_path}/there; rm {tmp_path}/file; chmod 777 {tmp_path}/file; touch /etc/there /usr/there; ln {tmp_path}/file linked
        cat {tmp_path}/file; echo > /dev/null && echo quiet; mktemp > made
    """
    found = await shell.run(command, isolate=True)
    assert found["stdout"] == "in\nxquiet\n"
    assert found["stderr"].count("Read-only file system") + found["stderr"].count("cross-device") == 6
    assert (tmp_path / "file").read_text() == "x" and not (tmp_path / "there").exists()
    assert (shell.home / "made").read_text().startswith(str(shell.home))


@pytest.mark.parametrize("level", ["network", "all"])
async def test_there_is_no_network_but_its_own(shell: CommandRunner, level: str) -> None:
    command = """
        test "$(ls /sys/class/net; cat /proc/net/dev | grep -c :)" && cat /proc/net/dev | tail -n +3 | cut -d: -f1
        (echo > /dev/udp/192.0.2.1/53) 2>/dev/null && echo sent
        (echo > /dev/tcp/192.0.2.1/80) 2>/dev/null && echo reached
        (echo > /dev/tcp/127.0.0.1/1) 2>&1 | grep -o refused | uniq
    """
    found = await shell.run(command, isolate=level)
    assert found["stdout"].split() == ["lo", "refused"]


@pytest.mark.slow
async def test_it_cannot_be_left_again(shell: CommandRunner, tmp_path: Path) -> None:
    command = f"""
        mount -o remount,rw / ; mount -o remount,rw,bind / ; umount -l {shell.home}
        unshare -Urm mount -o remount,rw,bind /
        nsenter -t 1 -m -n true; nsenter -t {os.getpid()} -n true
        echo x > {tmp_path}/there
        grep -h CapEff /proc/self/status
    """
    found = await shell.run(command, isolate="all")
    assert found["stdout"].split() == ["CapEff:", "0000000000000000"] and not (tmp_path / "there").exists()


async def test_it_cannot_read_what_the_engine_has_in_its_environment(shell: CommandRunner) -> None:
    found = await shell.run(f"cat /proc/{os.getpid()}/environ | wc -c", isolate="all")
    assert found["stdout"] == "0\n" and "Permission denied" in found["stderr"]


async def test_a_command_that_is_isolated_is_ended_as_any_other(shell: CommandRunner) -> None:
    found = await shell.run("(setsid sleep 60 &) ; sleep 60 & exit 5", isolate="all")
    assert (found["exit_code"], shell.left()) == (5, [])


async def test_a_deployment_may_isolate_all_commands_and_a_step_only_more(shell: CommandRunner, tmp_path: Path) -> None:
    shell.deployment = dataclasses.replace(shell.deployment, isolate="network")
    count: Any = "tail -n +3 /proc/net/dev | wc -l; touch %s && echo wrote"
    for level, said in (("none", "1\nwrote\n"), ("all", "1\n")):
        assert (await shell.run(count % (tmp_path / level), isolate=level))["stdout"] == said
    assert [isolation.stricter("network", one) for one in isolation.ISOLATION_LEVELS] == ["network", "network", "all"]


FORBIDDEN = """
import asyncio, sys
from pathlib import Path
from perdure.core.errors import CommandRefused
from tests.definitions.kinds.bash.command_runner import CommandRunner

try:
    asyncio.run(CommandRunner(Path(sys.argv[1])).run("touch ran", isolate=sys.argv[2]))
except CommandRefused as refused:
    print(refused)
"""


@pytest.mark.slow
@pytest.mark.parametrize("level", ["network", "all"])
def test_where_it_is_not_to_be_had_nothing_is_run(tmp_path: Path, level: str) -> None:
    root = Path(__file__).parents[4]
    none_left = "echo 0 > /proc/sys/user/max_net_namespaces; echo 0 > /proc/sys/user/max_user_namespaces"
    command = ["unshare", "-Ur", "sh", "-c", f'{none_left}; exec "$@"', "sh", sys.executable, "-c", FORBIDDEN, str(tmp_path), level]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root), *sys.path])}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert f"isolate: {level} is not to be had here (unshare: No space left on device); let the engine's user make" in done.stdout, done.stderr
    assert list(tmp_path.rglob("ran")) == []
