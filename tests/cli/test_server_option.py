"""Claims about `--server`: each command works with a server, needs none, or says why it needs the database itself, and does nothing."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from perdure.cli.command_list import root
from perdure.cli.exit_codes import ExitCode
from perdure.remote import http_access
from tests.cli.shell import FLOWS

UNREACHABLE = "http://127.0.0.1:9"
GREET = "perdure: 1\nname: greet\nsteps: [{id: a, set: {b: 1}}]\n"

ON_A_SERVER = [
    "start greet Ada",
    "workflow ls",
    "workflow show greet",
    "workflow history greet",
    "workflow diff greet@1 greet@2",
    "workflow validate greet.yaml",
    "workflow publish greet.yaml",
    "workflow draft greet",
    "workflow rollback greet 1.0.0",
    "workflow tag greet live",
    "workflow untag greet live",
    "workflow enable greet",
    "workflow disable greet",
    "workflow release greet",
    "workflow delete greet",
    "sync .",
    "propose greet --file greet.yaml",
    "proposal ls",
    "webhook send t1",
    "webhook deliveries t1",
    "webhook deliveries t1 d1",
    "webhook replay t1",
    "webhook replay t1 d1",
    "proposal show p1",
    "proposal review p1 --approve",
    "proposal apply p1",
    "proposal try p1",
    "trigger ls",
    "trigger show t1",
    "trigger preview t1",
    "trigger create nightly --workflow greet --cron @daily",
    "trigger enable t1",
    "trigger disable t1",
    "trigger pause t1",
    "trigger resume t1",
    "trigger rm t1",
    "trigger prune",
    "trigger run t1",
    "trigger backfill t1 --from 2027-01-01T00:00:00Z --until 2027-01-02T00:00:00Z",
    "ls",
    "show g1",
    "show g1 --at 3",
    "show g1 --tokens",
    "steps g1",
    "graph g1",
    "graph --definition greet",
    "events g1",
    "archives g1",
    "logs g1",
    "result g1",
    "query g1",
    "stream g1",
    "queues",
    "engines",
    "send g1 hello",
    "complete TOKEN 1",
    "cancel g1",
    "terminate g1",
    "undo g1",
    "pause g1",
    "resume g1",
    "patch g1 greet.yaml",
    "retry g1",
    "evict g1",
    "rerun g1",
    "fork g1",
    "preset g1 step 1",
    "dead-letters",
    "requeue g1",
    "discard g1",
    "dlq ls",
    "dlq requeue g1",
    "dlq reprocess --run-id g1",
    "dlq discard g1",
    "approvals",
    "approve g1 --as ada",
    "reject g1 --as ada",
    "delegate g1 bob --as ada",
    "decide LINK",
    "people show ada",
    "people set ada --email ada@example.com",
    "notifications ls",
    "notifications show mail",
    "notifications set mail --kind asked --channel smtp",
    "notifications rm mail",
    "notifications test mail",
    "limit mails --concurrency 3",
    "verify g1",
    "export g1",
    "import greet.yaml",
    "prune --older-than 1d",
    "costs",
    "memories greet.agent",
    "recording ls",
    "recording show r1",
    "recording suggest r1",
    "recording save r1 greet",
    "recording preset r1 5 --step get_user_1",
    "recording end r1",
    "keys create ci --admin",
    "keys ls",
    "keys revoke k1",
    "keys rotate k1",
]
"""A use of each command that asks the server."""

IN_A_DATABASE = [
    f"run {FLOWS}:greet Ada",
    f"worker {FLOWS}",
    f"dev {FLOWS} --port 0",
    f"serve {FLOWS}",
    "demo",
    "doctor",
    f"check {FLOWS}",
    "secret set NAME",
    "secret ls",
    "secret rm NAME",
    "secret rotate",
    "db path",
    "db init",
    "db check",
    "db backup copy.db",
    "db restore greet.yaml",
    "db raise-epoch",
    "db vacuum",
    "db upgrade",
    "db migrate",
    "db status",
    "db grants somebody --for read",
    "db keys",
    "db rekey",
]
"""A use of each command that works in a database."""

WITH_NEITHER = {
    "init": "it writes a project",
    "db copy": "its databases are arguments",
    "db compare": "its databases are arguments",
    "db key new": "it makes a key",
    "validate": "it reads files",
    "fmt": "it reads files",
    "lint": "it reads files",
    "diff": "it reads files",
    "compile": "it reads files",
    "schema": "it prints a schema",
    "kinds": "it lists what is installed here",
    "tools": "it reads code",
    "replay": "it replays an exported file",
    "fake-llm": "it is a server",
    "mcp": "it serves a client on standard input, on a database or for a server",
    "secret check": "it reads a file, and the secrets of this machine",
}


def command_names(group: click.Group, above: str = "") -> Iterator[str]:
    """All commands, by the words that call them."""
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from command_names(command, f"{above}{name} ")
        else:
            yield f"{above}{name}"


def invoked(line: str, *options: str) -> Any:
    return CliRunner().invoke(root, [*line.split(), *options], prog_name="perdure", input="value\n")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(http_access, "RETRY_S", 0.0)
    (tmp_path / "greet.yaml").write_text(GREET)
    return tmp_path


def test_each_command_is_among_those_that_work_with_a_server_in_a_database_or_with_neither() -> None:
    names = set(command_names(root))
    used = {name: {line for line in (*ON_A_SERVER, *IN_A_DATABASE) if f"{line} ".startswith(f"{name} ")} for name in names}
    assert {name for name in names if not used[name]} == WITH_NEITHER.keys()


@pytest.mark.parametrize("line", ON_A_SERVER)
def test_a_command_asks_the_server(line: str, here: Path) -> None:
    said = invoked(line, "--server", UNREACHABLE)
    assert said.exit_code == ExitCode.STORE, said.output
    assert f"the server {UNREACHABLE} can't be reached" in said.stderr
    assert [one.name for one in here.iterdir()] == ["greet.yaml"]


@pytest.mark.parametrize("by_variable", [False, True], ids=["option", "variable"])
@pytest.mark.parametrize("line", IN_A_DATABASE, ids=lambda line: " ".join(line.split()[:2]))
def test_a_command_that_works_in_a_database_refuses_a_server(line: str, by_variable: bool, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if by_variable:
        monkeypatch.setenv("PERDURE_SERVER", UNREACHABLE)
    said = invoked(line, *([] if by_variable else ["--server", UNREACHABLE]))
    assert said.exit_code == ExitCode.INPUT, said.output
    assert f"needs the database itself, and was given the server {UNREACHABLE}: " in said.stderr and "name the database: --db URL" in said.stderr
    assert [one.name for one in here.iterdir()] == ["greet.yaml"]
