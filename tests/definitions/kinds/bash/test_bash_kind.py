"""The kind `bash`: what comes of a command as the step of a definition, and what is refused."""

import dataclasses
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from perdure import Definition, ExecutionFailed
from perdure.core.errors import BadDefinition, CommandFailed, CommandRefused, Timeout
from perdure.definitions.expr import json_schema
from perdure.definitions.format.definition_findings import DefinitionFinding
from perdure.definitions.format.validator import definition_findings as format_checked
from perdure.definitions.kinds.bash import bash_kind as bash_kind_module
from perdure.definitions.kinds.bash.bash_kind import CONFIG, OUTPUT, bash_kind
from perdure.definitions.kinds.deployment import Allowed, Deployment
from perdure.testing import World
from tests.definitions.kinds.bash.command_runner import CommandRunner, until

CANARY = "canary-of-the-test"


def defined(work: Path, *steps: dict[str, Any], secrets: Any = None, **fields: Any) -> Definition:
    """A definition that may use bash."""
    document = {"perdure": 1, "name": "it", "order": "listed", "steps": list(steps), **fields}
    return Definition.of(document, deployment=Deployment(allowed=Allowed(bash=True), work=work), secrets=secrets)


async def test_what_comes_of_a_command_is_data(shell: CommandRunner) -> None:
    found = await shell.run("echo out; echo err >&2; exit 3")
    assert found.pop("duration_s") >= 0
    assert found == {"exit_code": 3, "signal": None, "stdout": "out\n", "stderr": "err\n", "truncated": False}


async def test_what_it_takes_and_gives_fits_its_schemas(shell: CommandRunner) -> None:
    assert json_schema.schema_problems(OUTPUT, await shell.run("kill -TERM $$")) == []
    assert json_schema.schema_problems(CONFIG, "ls") == json_schema.schema_problems(CONFIG, {"command": "ls", "isolate": True}) == []
    assert json_schema.schema_problems(CONFIG, {"command": "ls", "isolate": "some"}) and json_schema.schema_problems(CONFIG, {"cwd": "x"})
    of = bash_kind(shell.deployment)
    assert (of.name, of.step.idempotent, of.may_repeat("ls"), of.timeout, of.ports) == ("bash", None, False, 120.0, ("success", "error"))


async def test_who_is_ended_by_a_signal_says_which(shell: CommandRunner) -> None:
    found = await shell.run("kill -SEGV $$")
    assert (found["exit_code"], found["signal"]) == (128 + 11, "SIGSEGV")
    found = await shell.run("kill -40 $$")
    assert (found["exit_code"], found["signal"]) == (128 + 40, "40")


@pytest.mark.slow
def test_a_command_that_fails_fails_its_step_and_is_tried_again_only_where_retry_is_written(world: World, tmp_path: Path) -> None:
    count = "echo x >> tries; exit 3"
    for name, more, tries in (
        ("once", {}, 1),
        ("twice", {"retry": {"max": 2, "wait": "1s"}}, 2),
        ("never", {"retry": {"max": 2, "fatal": ["command_failed"]}}, 1),
    ):
        with pytest.raises(ExecutionFailed, match=r"command_failed: the command 'echo x >> tries; exit 3' ended with exit code 3. With check: false"):
            world.run(defined(tmp_path, {"id": "a", "bash": count, **more}, name=name))
        (said,) = tmp_path.rglob(f"{name}/*/tries")
        assert said.read_text() == "x\n" * tries
    with pytest.raises(ExecutionFailed, match="command_failed"):
        world.run(defined(tmp_path, {"id": "a", "bash": count}, name="all", retry={"max": 3}))
    (said,) = tmp_path.rglob("all/*/tries")
    assert said.read_text() == "x\n" * 3


@pytest.mark.parametrize(
    ("bash", "more", "warned"),
    [
        ("exit 1", {}, True),
        ({"command": "exit 1"}, {}, True),
        ({"command": "exit 1", "check": True}, {}, True),
        ({"command": "exit 1", "check": False}, {}, False),
        ("exit 1", {"on_error": "go_on"}, False),
    ],
)
def test_a_condition_on_an_exit_code_that_is_always_zero_is_a_warning(bash: Any, more: dict[str, Any], warned: bool) -> None:
    def of(*steps: dict[str, Any]) -> list[DefinitionFinding]:
        found = format_checked({"perdure": 1, "name": "it", "order": "listed", "steps": list(steps)})
        return [one for one in found if one.code == "always_zero"]

    gate = {"id": "gate", "if": {"ref": "@test.exit_code", "eq": 0}, "then": [{"id": "good", "return": 1}]}
    found = of({"id": "test", "bash": bash, **more}, gate)
    assert [(one.severity, one.pointer) for one in found] == [("warning", "/steps/1/if/ref")] * warned
    if warned:
        assert "'test' is always 0 here" in found[0].message and found[0].fix[0]["value"] == {"command": "exit 1", "check": False}
    again = {"id": "test", "bash": bash, "repeat": {"until": {"ref": "@self.exit_code", "eq": 0}, "max": 3}, **more}
    assert [one.pointer for one in of(again)] == ["/steps/0/repeat/until/ref"] * warned


@pytest.mark.slow
async def test_an_exit_code_is_data_only_for_who_asks_for_that(shell: CommandRunner) -> None:
    assert (await shell.run("true", check=True))["exit_code"] == 0
    assert (await shell.run("false", check=False))["exit_code"] == 1
    with pytest.raises(CommandFailed, match=r"the command 'echo no >&2; exit 7' ended with exit code 7: no. With check: false") as failed:
        await shell.run("echo no >&2; exit 7", check=True)
    assert (failed.value.exit_code, failed.value.signal, failed.value.last_line) == (7, None, "no")
    with pytest.raises(CommandFailed, match="was ended by SIGKILL"):
        await shell.run("kill -9 $$", check=True)


async def test_it_has_nothing_of_the_engine_s_environment_and_a_directory_of_its_own(shell: CommandRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OF_THE_ENGINE", CANARY)
    found = await shell.run("env; pwd; stat -c %a .", env={"A": {"b": 1}})
    assert CANARY not in found["stdout"] and 'A={"b":1}\n' in found["stdout"]
    assert found["stdout"].splitlines()[-2:] == [str(shell.home), "700"]


async def test_steps_of_one_execution_share_its_directory(shell: CommandRunner) -> None:
    await shell.run("mkdir -p a/b; echo x > a/b/c")
    assert (await shell.run("cat c", cwd="a/b"))["stdout"] == "x\n"
    assert (await shell.run("pwd", cwd="/"))["stdout"] == "/\n"


@pytest.mark.parametrize(("cwd", "why"), [("../..", "leads out"), ("a/../../..", "leads out"), ("link", "leads out"), ("nothing", "no directory nothing")])
async def test_a_directory_outside_of_its_own_is_only_had_by_its_whole_path(shell: CommandRunner, cwd: str, why: str) -> None:
    await shell.run("ln -s / link")
    with pytest.raises(CommandRefused, match=why):
        await shell.run("pwd", cwd=cwd)


@pytest.mark.slow
async def test_it_reads_what_it_is_given_and_nothing_else(shell: CommandRunner) -> None:
    assert (await shell.run("cat"))["stdout"] == ""
    assert (await shell.run("cat", stdin="ünï\nx"))["stdout"] == "ünï\nx"
    assert json.loads((await shell.run("cat", {"a": [1, None]}))["stdout"]) == {"a": [1, None]}
    large = "x" * 5_000_000
    assert (await shell.run("sha256sum", stdin=large))["stdout"].split()[0] == hashlib.sha256(large.encode()).hexdigest()
    assert (await shell.run("head -c 3", stdin=large))["stdout"] == "xxx"


@pytest.mark.parametrize(("command", "shown"), [("cat secret.txt", "'cat secret.txt'"), (f"x{'y' * 200}\necho {CANARY}", f"'x{'y' * 78}…'")])
async def test_errors_show_the_first_line_of_a_command_and_nothing_of_its_environment(shell: CommandRunner, command: str, shown: str) -> None:
    with pytest.raises(CommandFailed) as failed:
        await shell.run(f"{command}\nexit 1", env={"TOKEN": CANARY}, check=True)
    assert str(failed.value).startswith(f"the command {shown}") and CANARY not in str(failed.value)


async def test_what_is_larger_than_a_program_can_be_given_is_refused(shell: CommandRunner) -> None:
    with pytest.raises(CommandRefused, match="pass large data by stdin") as refused:
        await shell.run("true", env={"LARGE": CANARY * 10_000})
    assert CANARY not in str(refused.value)


async def test_a_working_directory_that_cannot_be_had_is_told_of(shell: CommandRunner, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for work, why in ((tmp_path / "file" / "work", "Not a directory"), (tmp_path / "file", "File exists"), (Path("/proc/work"), "No such file")):
        shell.deployment = dataclasses.replace(shell.deployment, work=work)
        with pytest.raises(CommandRefused, match=rf"can't be made \({why}.*Deployment\(work=...\)"):
            await shell.run("true")
    shell.deployment = dataclasses.replace(shell.deployment, work=Path("/proc/self/fdinfo"))
    with pytest.raises(CommandRefused, match=r"the working directory .* can't be"):
        await shell.run("true")


async def test_without_bash_on_the_machine_it_says_so(shell: CommandRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CommandRefused, match="there is no bash on this machine"):
        await shell.run("true")


@pytest.mark.slow
async def test_watchers_see_what_it_says_last(shell: CommandRunner) -> None:
    found = await shell.run("echo begun; sleep 1.2; printf 'more\\nlines'; echo bad >&2; sleep 1.1; echo end")
    assert found["exit_code"] == 0
    assert len(shell.beats) == 2 and b"begun" in shell.beats[0] and b"more" not in shell.beats[0]
    assert b"lines" in shell.beats[1] and b"bad" in shell.beats[1] and b"end" not in shell.beats[1].replace(b"stderr", b"")
    shell.beats.clear()
    await shell.run("echo quick")
    assert shell.beats == []


@pytest.mark.slow
async def test_a_command_that_takes_longer_than_any_may_is_ended(shell: CommandRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bash_kind_module, "TIMEOUT_S_MAX", 0.2)
    with pytest.raises(Timeout, match=r"bash: sleep 60: timed out after 0.2 s"):
        await shell.run("sleep 60")
    await until(lambda: shell.left() == [], "nothing is left")


def test_nothing_is_run_that_is_not_allowed(world: World, tmp_path: Path) -> None:
    document = {"perdure": 1, "name": "it", "steps": [{"id": "a", "bash": f"touch {tmp_path}/done"}]}
    with pytest.raises(ExecutionFailed, match=r"not_allowed: bash is not allowed here: .*--allow bash, .*Allowed\(bash=True\)"):
        world.run(Definition.of(document, deployment=Deployment(work=tmp_path)))
    assert not (tmp_path / "done").exists()


def test_a_definition_branches_by_an_exit_code(world: World, tmp_path: Path) -> None:
    test = {"id": "test", "bash": {"command": 'echo "$N tests"; exit "$CODE"', "check": False}, "env": {"N": "@input.n", "CODE": "@input.code"}}
    gate = {"id": "gate", "if": {"ref": "@test.exit_code", "eq": 0}, "then": [{"id": "good", "return": "@test.stdout"}]}
    it = defined(tmp_path, test, gate, {"id": "bad", "return": "@test.exit_code"}, input={"n": {}, "code": {}})
    assert world.run(it, n=5, code=0) == "5 tests\n"
    assert world.run(it, n=5, code=4) == 4


def test_what_is_evaluated_reaches_a_command_by_env_and_stdin_and_its_text_is_left_alone(world: World, tmp_path: Path) -> None:
    config = {"command": 'cat; echo "@$X" user@host', "stdin": {"n": "@input.n"}, "cwd": "@{input.cwd}"}
    it = defined(tmp_path, {"id": "a", "bash": config, "env": {"X": "@input.n"}}, input={"n": {}, "cwd": {}})
    assert world.run(it, n="; echo injected", cwd="/")["stdout"] == '{"n":"; echo injected"}@; echo injected user@host\n'


def test_a_secret_reaches_a_command_and_nothing_that_is_kept(world: World, tmp_path: Path) -> None:
    it = defined(
        tmp_path, {"id": "a", "bash": {"command": 'echo "${#TOKEN}"; exit 1', "check": False}, "env": {"TOKEN": "@secrets.TOKEN"}}, secrets={"TOKEN": CANARY}
    )
    assert world.run(it)["stdout"] == f"{len(CANARY)}\n"
    checked = {"id": "a", "bash": {"command": "exit 1", "check": True}, "env": {"TOKEN": "@secrets.TOKEN"}, "retry": {"max": 1}}
    with pytest.raises(ExecutionFailed, match="command_failed: the command 'exit 1' ended with exit code 1"):
        world.run(defined(tmp_path, checked, secrets={"TOKEN": CANARY}, name="other"))
    assert CANARY not in world.trace()


def test_a_command_is_told_its_key_and_its_try(world: World, tmp_path: Path) -> None:
    flaky = {"command": 'echo "$PERDURE_IDEMPOTENCY_KEY $PERDURE_ATTEMPT" >> tries; test "$PERDURE_ATTEMPT" = 3'}
    world.run(defined(tmp_path, {"id": "a", "bash": flaky, "retry": {"max": 3}}).with_(id="x/y"))
    (said,) = tmp_path.rglob("tries")
    assert said.read_text() == "".join(f"default/it/x%2Fy:a {attempt}\n" for attempt in (1, 2, 3))


@pytest.mark.parametrize(
    ("step", "pointer", "why"),
    [
        ({"bash": "ls", "timeout": "11m"}, "/steps/0/bash", "a command has at most 600 s"),
        ({"bash": {"command": "ls"}, "timeout": 601}, "/steps/0/bash", "a command has at most 600 s"),
        ({"bash": " "}, "/steps/0/bash", "a command"),
        ({"bash": {"command": "\n"}}, "/steps/0/bash/command", "a command"),
        ({"bash": "ls\0"}, "/steps/0/bash", "no NUL"),
        ({"bash": {"command": "cat", "stdin": "a"}, "with": {"b": 1}}, "/steps/0/bash/stdin", "keep one of the two"),
        ({"bash": {"command": "echo @{input.x}"}}, "/steps/0/bash/command", "values reach a shell through env"),
        ({"bash": {"command": "@input.x"}}, "/steps/0/bash/command", "values reach a shell through env"),
        ({"bash": {"command": "ls", "stdin": "@nobody"}}, "/steps/0/bash/stdin", "'@nobody' is not a step"),
        ({"bash": {"command": "ls", "stdin": "@secrets.X"}}, "/steps/0/bash/stdin", "is not allowed here"),
        ({"bash": {"command": "ls", "isolate": "some"}}, "/steps/0/bash/isolate", "network"),
        ({"bash": {"command": "ls", "shell": "zsh"}}, "/steps/0/bash/shell", "shell"),
        ({"bash": {"cwd": "x"}}, "/steps/0/bash", "command"),
        ({"bash": 5}, "/steps/0/bash", "a command, or a mapping with one"),
        ({"task": {"type": "bash", "config": {"command": "ls", "shell": "zsh"}}}, "/steps/0/task/config", "shell"),
    ],
)
def test_what_can_be_seen_to_be_wrong_is_refused_before_anything_runs(step: dict[str, Any], pointer: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(BadDefinition) as refused:
        defined(tmp_path, {"id": "a", **step}, input={"x": {}})
    assert [(found.pointer, why in found.message) for found in refused.value.findings if found.severity == "error"] == [(pointer, True)]


def test_ten_minutes_are_not_too_long(tmp_path: Path) -> None:
    assert defined(tmp_path, {"id": "a", "bash": "ls", "timeout": "10m"}).lacks() == []


@pytest.mark.slow
def test_what_one_step_has_said_orders_the_next(world: World, tmp_path: Path) -> None:
    document = {
        "perdure": 1,
        "name": "it",
        "steps": [{"id": "b", "bash": {"command": "cat", "stdin": "@a.stdout"}}, {"id": "a", "bash": "sleep 0.1; echo first"}],
        "output": "@b.stdout",
    }
    assert world.run(Definition.of(document, deployment=Deployment(allowed=Allowed(bash=True), work=tmp_path))) == "first\n"


def test_a_value_that_no_program_can_be_given_fails_the_step_at_once(world: World, tmp_path: Path) -> None:
    it = defined(tmp_path, {"id": "a", "bash": "true", "env": {"X": "@input.x"}}, input={"x": {}})
    run = world.start(it, x="a\0b")
    with pytest.raises(ExecutionFailed, match=r"bad_value: env.X: 'text with a NUL character'"):
        run.result()
    assert run.step("a").attempts == 1
