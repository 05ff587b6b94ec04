"""Definitions on the command line, word for word: written, checked, run, looked at, patched; what is wrong is told with its place, and nothing is started."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perdure import Definition
from perdure.async_client import AsyncClient
from perdure.cli import targets
from perdure.sync_client import Approval
from tests.cli.conftest import copied
from tests.cli.shell import Shell, agrees, steady, transcript
from tests.cli.test_commands_beside_an_engine import advancing

DEFINITIONS = Path(__file__).parent / "definitions"
TOOLS = Path(__file__).parent / "definition_tools.py"

WRITING = {
    "validate": "validate DEFS/pay.yaml DEFS/wrong.yaml DEFS/reserved.yaml DEFS/circle.yaml DEFS/release.json",
    "validate_json": "validate DEFS/wrong.yaml DEFS/pay.yaml --json",
    "validate_warned": "validate DEFS/warned.yaml",
    "validate_strict": "validate DEFS/warned.yaml --strict",
    "validate_unicode": "validate DEFS/unicode.yaml",
    "validate_unreadable": "validate none.yaml empty.yaml binary.yaml . DEFS/pay.yaml",
    "lint_definitions": "lint DEFS/wrong.yaml DEFS/warned.yaml TOOLS",
    "lint_definitions_json": "lint DEFS/circle.yaml --json",
    "lint_definitions_left_out": "lint DEFS/wrong.yaml --select PD1",
    "fmt_check": "fmt --check DEFS/untidy.yaml DEFS/pay.yaml",
    "fmt_stdout": "fmt --stdout DEFS/untidy.yaml",
    "fmt_json": "fmt --stdout DEFS/release.json",
    "fmt_wrong": "fmt DEFS/reserved.yaml",
    "fmt_binary": "fmt binary.yaml",
    "fmt_both": "fmt --check --stdout DEFS/untidy.yaml",
    "diff": "diff DEFS/pay.yaml changed.yaml",
    "diff_json": "diff DEFS/pay.yaml changed.yaml --json",
    "diff_same": "diff DEFS/pay.yaml DEFS/pay.yaml",
    "diff_wrong": "diff DEFS/pay.yaml DEFS/wrong.yaml",
    "compile": "compile DEFS/pay.yaml",
    "compile_hash": "compile DEFS/pay.yaml --hash",
    "compile_wrong": "compile DEFS/circle.yaml",
    "graph": "graph DEFS/tour.yaml",
    "graph_mermaid": "graph DEFS/pay.yaml --format mermaid",
    "graph_wrong": "graph DEFS/wrong.yaml",
    "graph_plan_at": "graph DEFS/pay.yaml --at 3",
}

RUNNING = {
    "run_definition": "run DEFS/named.yaml --tools TOOLS -i id=007 -i tenant=4 --id n1",
    "run_definition_json": "run DEFS/named.yaml --tools TOOLS --input input.yaml -o json",
    "run_definition_asks": "run DEFS/pay.yaml --tools TOOLS -i amount=2 --id p9 --no-wait",
    "run_definition_watched": "run DEFS/pay.yaml --tools TOOLS -i amount=2 --id p9 --no-wait --watch",
    "run_definition_of_001": "run DEFS/release.json --tools TOOLS --id r1 --no-wait",
    "run_definition_calls": "run DEFS/caller.yaml --tools TOOLS --calls DEFS/named.yaml",
    "run_definition_lacks": "run DEFS/http.yaml --tools TOOLS",
    "run_definition_without_tools": "run DEFS/pay.yaml -i amount=2",
    "run_definition_warned": "run DEFS/warned.yaml --tools TOOLS --id w1 --no-wait",
    "run_definition_wrong": "run DEFS/wrong.yaml --tools TOOLS",
    "run_definition_input_missing": "run DEFS/pay.yaml --tools TOOLS",
    "run_definition_input_unfit": "run DEFS/pay.yaml --tools TOOLS -i amount=much",
    "run_definition_input_unknown": "run DEFS/pay.yaml --tools TOOLS -i amuont=2",
    "run_definition_input_position": "run DEFS/pay.yaml --tools TOOLS 2",
    "run_definition_input_list": "run DEFS/pay.yaml --tools TOOLS --input list.json",
    "run_definition_input_broken": "run DEFS/pay.yaml --tools TOOLS --input DEFS/reserved.yaml",
    "run_definition_no_file": "run none.yaml",
    "run_definition_empty": "run empty.yaml",
    "run_definition_binary": "run binary.yaml",
    "run_definition_directory": "run directory.yaml",
    "run_definition_no_tools": "run DEFS/pay.yaml --tools none.py -i amount=2",
    "run_definition_hidden_tools": "run DEFS/pay.yaml --tools hidden.py -i amount=2",
    "run_code_with_tools": "run FLOWS:greet Ada --tools TOOLS",
    "start_definition": "start DEFS/pay.yaml -i amount=2 --id p9",
    "start_definition_input": "start DEFS/pay.yaml -i amount=x",
}

LOOKING = {
    "show_definition": "show done",
    "show_definition_asks": "show asks",
    "show_definition_failed": "show failed",
    "show_definition_json": "show asks --json",
    "show_tokens": "show asks --tokens",
    "show_tokens_at": "show asks --tokens --at 3",
    "show_tokens_json": "show asks --tokens --json --at 1",
    "show_tokens_none": "show asks --tokens --at 99",
    "show_tokens_of_code": "show ada --tokens",
    "show_at": "show asks --at 3",
    "graph_execution": "graph done",
    "graph_execution_at": "graph failed --at 4",
    "graph_execution_failed": "graph failed",
    "graph_execution_mermaid": "graph asks --format mermaid",
    "graph_of_code": "graph ada",
    "events_definition": "events failed --after 1",
    "ls_definitions": "ls --workflow pay",
    "resume_decision": "resume asks --decision approve --as bob",
    "resume_decision_several": "resume two --decision deny",
    "resume_decision_chosen": "resume two --decision deny --approval second --reason no",
    "resume_decision_none": "resume done --decision approve",
    "resume_decision_all": "resume --all --decision approve",
    "resume_decision_half": "resume asks --approval ask",
    "resume_decision_wrong": "resume asks --decision maybe",
    "patch_nothing": "patch asks",
    "patch_two_ways": "patch asks changed.yaml --set b.with.y=3",
    "patch_dry": "patch asks changed.yaml --dry-run",
    "patch_dry_set": "patch asks --set b.with.y=3 --set .version=2.0.0 --dry-run",
    "patch_dry_json": "patch asks --json-patch patch.json --dry-run",
    "patch_dry_nodes": "patch asks --json-patch nodes.json --dry-run",
    "patch_other_tag": "patch two --json-patch nodes.json --dry-run",
    "patch_dry_edits": "patch asks --edits edits.yaml --dry-run",
    "patch_same": "patch asks DEFS/pay.yaml",
    "patch_no_step": "patch asks --set nothing.with.y=3",
    "patch_pair": "patch asks --set b=3",
    "patch_base": "patch asks changed.yaml --base sha256:0000 --dry-run",
    "patch_code": "patch ada changed.yaml",
    "patch_ended": "patch done DEFS/tour.yaml --timeout 1s",
    "patch_wrong": "patch asks DEFS/wrong.yaml",
    "patch_no_wait": "patch asks --set b.with.y=3 --no-wait",
    "patch_late": "patch asks --set b.with.y=3 --timeout 0.2s",
    "patch_withdraw_none": "patch asks --withdraw",
    "patch_withdraw_file": "patch asks changed.yaml --withdraw",
    "dlq": "dlq ls --workflow broken",
    "dlq_requeue": "dlq requeue failed --dry-run",
    "dlq_discard": "dlq discard failed --dry-run",
    "dlq_reprocess": "dlq reprocess --run-id failed --node-id b",
    "dlq_reprocess_elsewhere": "dlq reprocess --run-id failed --node-id a",
}

LIVE = {
    "patch": "patch asks changed.yaml --reason 'it costs more'",
    "patch_set": "patch asks --set b.with.y=30",
    "patch_refused": "patch asks --set a.with.y=30",
    "resume_decision_wait": "resume asks --decision approve --as bob --wait",
}

MORE = """
perdure: 1
name: broken
steps:
  - {id: a, tool: add, with: {x: 1, y: 1}}
  - {id: skipped, tool: add, when: {ref: "@a", gt: 5}, with: {x: 1, y: 1}}
  - {id: b, needs: [a], tool: boom}
  - {id: c, needs: [b], fail: "never"}
"""

TWO = """
perdure: 1
name: two
steps:
  - {id: first, approve: {title: "First?"}}
  - {id: second, approve: {title: "Second?"}}
"""


def prepared(directory: Path) -> None:
    """Files that the commands name, beside the definitions of this directory."""
    pay = (DEFINITIONS / "pay.yaml").read_text()
    (directory / "changed.yaml").write_text(pay.replace("y: 10", "y: 20").replace("name: pay", "name: pay\nversion: 1.1.0"))
    (directory / "broken.yaml").write_text(MORE)
    (directory / "two.yaml").write_text(TWO)
    (directory / "empty.yaml").write_text(" \n")
    (directory / "binary.yaml").write_bytes(b"\x7fELF\x02\x01\x01\x00\xff\xfe")
    (directory / "directory.yaml").mkdir()
    (directory / "input.yaml").write_text("id: x\ntenant: 41\n")
    (directory / "list.json").write_text("[1]")
    (directory / "hidden.py").write_text("from tests.cli.shell import steady\n\n\ndef _hidden() -> None: ...\n")
    (directory / "patch.json").write_text('[{"op": "replace", "path": "/steps/2/with/y", "value": 40}]')
    mail = {"id": "mail", "type": "task", "config": {"action": "add", "x": 1, "y": "$nodes.b"}}
    operations = [{"op": "add", "path": "/nodes/-", "value": mail}, {"op": "add", "path": "/edges/-", "value": {"from": "b", "to": "mail"}}]
    spec = {"workflow_tag": "pay", "patch_spec": {"operations": operations, "description": "tell them"}}
    (directory / "nodes.json").write_text(json.dumps(spec))
    (directory / "edits.yaml").write_text("- {op: add_step, step: {id: c, tool: add, with: {x: '@b', y: 1}}}\n")


def typed(command: str) -> str:
    return command.replace("DEFS", str(DEFINITIONS)).replace("TOOLS", str(TOOLS))


def said_of(shell: Shell, command: str, stdin: str = "") -> str:
    """What a command said, as its transcript has it."""
    said = shell.run(typed(command), stdin)
    return steady(transcript(command, said, stdin), shell.directory)


@pytest.fixture(autouse=True)
def forgets_modules(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Modules that commands have imported by their paths are gone behind each test."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield
    for name in ("definition_tools", "hidden"):
        sys.modules.pop(name, None)


@pytest.fixture
def writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    """A shell in a directory with definitions, and no database yet."""
    prepared(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PERDURE_DB", raising=False)
    return Shell(f"sqlite:///{tmp_path}/perdure.db")


@pytest.fixture(scope="session")
def story(history: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with executions of definitions beside those of code: done, asking, failed, asking twice."""
    directory = tmp_path_factory.mktemp("definitions")
    copied(history, directory)
    prepared(directory)
    shell, tools = Shell(f"sqlite:///{directory}/perdure.db"), f"--tools {TOOLS}"
    for command in (
        f"run {DEFINITIONS}/pay.yaml {tools} -i amount=5 --id asks --no-wait",
        f"run {DEFINITIONS}/tour.yaml {tools} --id done --no-wait",
        "approve done --as ada --no-wait",
        f"run {DEFINITIONS}/tour.yaml {tools} --id done",
        f"run {directory}/broken.yaml {tools} --id failed",
        f"run {directory}/two.yaml --id two --no-wait",
    ):
        said = shell.run(command)
        assert said.code in (0, 31, 40), said
    return directory / "perdure.db"


@pytest.fixture
def reader(story: Path, writer: Shell) -> Shell:
    """A shell on a copy of these."""
    copied(story, writer.directory)
    return writer


@pytest.mark.parametrize("name", [*WRITING, *RUNNING])
def test_without_a_database_the_command_says_what_its_transcript_says(name: str, writer: Shell) -> None:
    command = {**WRITING, **RUNNING}[name]
    agrees(name, said_of(writer, command))
    if name in WRITING:
        assert not list(writer.directory.glob("perdure.db*")), "it has made a database"


@pytest.mark.parametrize("name", LOOKING)
def test_of_executions_of_definitions_the_command_says_what_its_transcript_says(name: str, reader: Shell) -> None:
    agrees(name, said_of(reader, LOOKING[name]))


@pytest.mark.parametrize("name", LIVE)
def test_beside_an_engine_that_has_the_definition_the_command_says_what_its_transcript_says(name: str, reader: Shell) -> None:
    code = targets.load_code([str(DEFINITIONS / "pay.yaml")], [str(TOOLS)])
    with advancing(reader.db, [one.code for one in code.workflows]):
        agrees(name, said_of(reader, LIVE[name]))


@pytest.mark.slow
def test_a_patch_that_no_engine_has_judged_is_carried_out_by_the_next_one_unless_it_is_withdrawn(reader: Shell) -> None:
    code = targets.load_code([str(DEFINITIONS / "pay.yaml")], [str(TOOLS)])
    assert reader.run("patch asks --set b.with.y=100 --no-wait").code == 0
    assert reader.run("patch asks --set b.with.y=200 --timeout 0.1s").code == 43
    said = reader.run("patch asks --withdraw")
    assert (said.code, said.out) == (0, "2 patches of pay/asks are withdrawn\n")
    assert reader.run("patch asks --set b.with.y=300 --no-wait").code == 0
    with advancing(reader.db, [one.code for one in code.workflows]):
        assert reader.run("resume asks --decision approve --as bob --wait").code == 0
        assert json.loads(reader.run("result asks --wait").out) == {"sum": 306}
        assert "no patch of pay/asks waits" in reader.run("patch asks --withdraw").err
    changes = [event for event in json.loads(reader.run("events asks -o json").out) if event["type"] == "execution.patched"]
    assert len(changes) == 1


@pytest.mark.parametrize(
    "name", [name for name in RUNNING if any(word in name for word in ("wrong", "lacks", "without", "input", "no_", "empty", "binary", "hidden"))]
)
def test_what_is_refused_has_started_nothing(name: str, writer: Shell) -> None:
    assert writer.run(typed(RUNNING[name])).code == 10
    assert not list(writer.directory.glob("perdure.db*"))


@pytest.mark.slow
def test_a_definition_comes_from_standard_input(writer: Shell) -> None:
    tools = f"--tools {TOOLS}"
    text = (DEFINITIONS / "release.json").read_text()
    said = writer.run(f"run - {tools} --id r1 --no-wait", stdin=text)
    assert (said.code, said.out) == (31, "")
    assert writer.run("resume r1 --decision approve").code == 0
    assert writer.run(f"run - {tools} --id r1", stdin=text).code == 0
    assert writer.run("validate -", stdin=text).code == 0
    assert writer.run("fmt -", stdin=(DEFINITIONS / "untidy.yaml").read_text()).out.startswith("perdure: 1\nname: untidy\n")
    assert writer.run("compile - --hash", stdin=text).out.startswith("sha256:")
    assert writer.run("graph -", stdin=text).out.startswith("release")
    assert writer.run("validate -", stdin="").code == 10
    assert writer.run("run - --input -", stdin=text).code == 20
    assert writer.run("diff - -", stdin=text).code == 20


@pytest.mark.slow
def test_its_input_comes_from_standard_input_and_names_win(writer: Shell) -> None:
    run = f"run {DEFINITIONS}/named.yaml --tools {TOOLS} --input -"
    assert json.loads(writer.run(run, stdin="id: x\ntenant: 1").out) == {"id": "x", "a": 2}
    assert json.loads(writer.run(f"{run} -i tenant=8", stdin='{"id": "x", "tenant": 1}').out) == {"id": "x", "a": 9}


@pytest.mark.slow
def test_a_closed_standard_input_is_told_of(writer: Shell) -> None:
    command = f"exec {sys.executable} -m perdure.cli --db {writer.db} run - <&-"
    ended = subprocess.run(["sh", "-c", command], cwd=writer.directory, capture_output=True, text=True, timeout=20, check=False)
    assert (ended.returncode, ended.stdout) == (10, "")
    assert ended.stderr.startswith("perdure: standard input can't be read: it is closed\n")


@pytest.mark.slow
def test_a_library_that_is_not_installed_is_named_with_how_to_install_it(writer: Shell) -> None:
    code = f"import sys; sys.modules['ruamel.yaml'] = None; sys.argv = ['perdure', 'run', '{DEFINITIONS}/pay.yaml']; from perdure.cli import main; main()"
    ended = subprocess.run([sys.executable, "-c", code], cwd=writer.directory, capture_output=True, text=True, timeout=20, check=False)
    assert ended.returncode == 10
    assert 'pip install "perdure[definitions]"' in ended.stderr and "Traceback" not in ended.stderr


def test_formatting_writes_the_file_once_and_keeps_its_mode(writer: Shell) -> None:
    file = writer.directory / "untidy.yaml"
    file.write_text((DEFINITIONS / "untidy.yaml").read_text())
    file.chmod(0o640)
    assert writer.run("fmt untidy.yaml").out == "untidy.yaml was changed\n"
    once = file.read_text()
    assert once == writer.run(f"fmt --stdout {DEFINITIONS}/untidy.yaml").out
    assert writer.run("fmt untidy.yaml").out == ""
    assert (file.read_text(), file.stat().st_mode & 0o777) == (once, 0o640)
    assert writer.run("fmt --check untidy.yaml").code == 0
    assert [one.name for one in writer.directory.glob(".untidy*")] == []


def test_a_file_that_cannot_be_written_stays(writer: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    file = writer.directory / "untidy.yaml"
    file.write_text((DEFINITIONS / "untidy.yaml").read_text())
    before = file.read_bytes()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fdopen", full)
    said = writer.run("fmt untidy.yaml")
    assert (said.code, file.read_bytes()) == (10, before)
    assert "can't be written: No space left on device" in said.err
    assert [one.name for one in writer.directory.glob(".untidy*")] == []


@pytest.mark.slow
def test_a_picture_goes_into_a_file(reader: Shell) -> None:
    assert reader.run("graph done --format svg -o done.svg").out == ""
    assert (reader.directory / "done.svg").read_text().startswith("<svg")
    assert reader.run("graph done --format svg").out.startswith("<svg")
    said = reader.run("graph done -o none/done.txt")
    assert (said.code, "can't be written" in said.err) == (10, True)


def test_the_schema_is_that_of_the_format(writer: Shell) -> None:
    found = json.loads(writer.run("schema").out)
    assert (found["$id"], found["title"]) == ("urn:perdure:definition:1", "A Perdure definition")


@pytest.mark.slow
def test_killed_at_its_approval_and_run_again_it_goes_on(reader: Shell) -> None:
    run = f"run {DEFINITIONS}/pay.yaml --tools {TOOLS} -i amount=5 --id asks"
    assert reader.run(f"{run} --no-wait").code == 31
    assert reader.run("resume asks --decision approve").code == 0
    assert json.loads(reader.run(run).out) == {"sum": 16}
    assert json.loads(reader.run(run).out) == {"sum": 16}
    assert [step["path"] for step in json.loads(reader.run("show asks --json").out)["steps"]] == ["a", "ask", "b"]


def test_dead_letters_of_definitions_have_step_reason_tries_and_input(reader: Shell) -> None:
    (group,) = json.loads(reader.run("dead-letters --workflow broken --json").out)
    assert (group["path"], group["reason"]) == ("b", "max_retries_exceeded")
    (letter,) = json.loads(reader.run(f"dead-letters {group['fingerprint']} --json").out)
    assert (letter["path"], letter["reason"], letter["attempts"], letter["input"]) == ("b", "max_retries_exceeded", 2, [])


@pytest.mark.slow
def test_killed_while_it_waits_and_run_again_it_goes_on_and_does_nothing_twice(writer: Shell) -> None:
    (writer.directory / "noted.py").write_text("def add(x, y):\n    with open('noted.txt', 'a') as file:\n        file.write(f'{x}+{y} ')\n    return x + y\n")
    words = ["run", str(DEFINITIONS / "pay.yaml"), "--tools", "noted.py", "-i", "amount=5", "--id", "k"]
    with subprocess.Popen([sys.executable, "-m", "perdure.cli", "--db", writer.db, *words], cwd=writer.directory) as process:
        while writer.run("approvals -o json").out in ("", "[]\n"):  # there is no database, or nobody asks yet
            assert process.poll() is None
            time.sleep(0.05)
        process.kill()
    assert writer.run("resume k --decision approve").code == 0
    assert json.loads(writer.run(" ".join(words)).out) == {"sum": 16}
    sys.modules.pop("noted", None)
    assert (writer.directory / "noted.txt").read_text() == "5+1 6+10 "


@pytest.mark.slow
def test_where_a_run_ends_each_approval_is_answerable(writer: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    approvals, looks = AsyncClient.approvals, []

    async def late(client: AsyncClient, *args: Any, **given: Any) -> list[Approval]:
        """None has begun when they are first looked at."""
        looks.append(args)
        return [] if len(looks) == 1 else await approvals(client, *args, **given)

    monkeypatch.setattr(AsyncClient, "approvals", late)
    assert writer.run("run two.yaml --id t --no-wait").code == 31
    assert len(looks) >= 2
    for step in ("first", "second"):
        assert writer.run(f"resume t --decision approve --approval {step}").code == 0


def test_a_denied_approval_ends_it_as_cancelled(reader: Shell) -> None:
    assert reader.run("resume asks --decision deny --as bob --reason 'too much'").code == 0
    said = reader.run(f"run {DEFINITIONS}/pay.yaml --tools {TOOLS} -i amount=5 --id asks")
    assert (said.code, "rejected by bob: too much" in said.err) == (41, True)


@pytest.mark.slow
def test_a_worker_runs_definitions_with_their_tools_and_those_that_they_call(writer: Shell) -> None:
    found = targets.load_code([str(DEFINITIONS / "caller.yaml")], [str(TOOLS)], [str(DEFINITIONS / "named.yaml")])
    assert [one.code.name for one in found.workflows] == ["named", "caller"]
    caller = found.workflows[1]
    assert isinstance(caller, Definition) and caller.lacks() == []
    assert set(caller.graph.tools) == {"add", "boom"}
    with advancing(writer.db, [one.code for one in found.workflows]):
        said = writer.run(f"start {DEFINITIONS}/caller.yaml --wait --timeout 10s")
    assert json.loads(said.out) == {"a": 42, "id": "i"}


def test_one_name_for_two_tools_is_refused(writer: Shell) -> None:
    (writer.directory / "more.py").write_text("def add(x, y):\n    return x\n")
    said = writer.run(f"run {DEFINITIONS}/pay.yaml --tools {TOOLS} --tools more.py -i amount=1")
    sys.modules.pop("more", None)
    assert (said.code, "the only one to have a tool called add" in said.err) == (10, True)
