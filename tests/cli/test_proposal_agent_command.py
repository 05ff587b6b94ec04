"""What `perdure propose --words` does: with models of its own, on a server, when it is killed, and when it does not get there."""

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from perdure.cli.command_list import root
from perdure.fake_llm import Fake, models_yaml, serving_aside
from tests.cli.serve_process import new_key, serving
from tests.cli.shell import Said, Shell

NEW = """\
perdure: 1
name: greeting
order: listed
input: {name: {type: string}}
steps:
  - {id: text, set: {hello: "Hello @{input.name}"}}
output: "@text.hello"
"""
PRESENT = "perdure: 1\nname: invoice\nallow: {self_edit: true}\nvars: {n: 0}\nsteps:\n  - {id: note, set: {n: 1}} # one\noutput: '@vars.n'\n"
TURNS = 4


def calls(turn: int, name: str, delay: str = "", **args: Any) -> dict[str, Any]:
    """A rule by which the model calls a tool in a turn, as often as it is asked."""
    return {"when": {"turn": turn}, "answer": {"calls": [{"name": name, "args": args}]}, "repeat": True, **({"delay": delay} if delay else {})}


def greeting(delay: str = "") -> list[dict[str, Any]]:
    """A model that writes a new definition, with a mistake at first."""
    return [
        calls(1, "write_definition", delay, document=NEW.replace("set:", "sett:")),
        calls(2, "write_definition", delay, replace=[{"find": "sett:", "with": "set:"}]),
        calls(3, "try_definition", delay, input={"name": "Ada"}),
        calls(4, "propose_definition", delay, note="Greets"),
    ]


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(f"sqlite:///{tmp_path / 'perdure.db'}")


@contextmanager
def served(shell: Shell, rules: list[dict[str, Any]]) -> Iterator[tuple[Fake, Path]]:
    """A provider with this script, and the file that names it."""
    fake, file = Fake(rules), shell.directory / "models.yaml"
    with serving_aside(fake) as url:
        _ = file.write_text(models_yaml(url), encoding="utf-8")
        yield fake, file


def test_a_new_definition_is_proposed_and_can_be_reviewed_and_applied(shell: Shell) -> None:
    with served(shell, greeting()) as (fake, file):
        said = shell.run(f"propose --words 'Greet somebody' --models {file}")
    assert said.code == 0, said.err
    assert said.err.splitlines()[1:5] == [
        "  writes the definition: 1 error",
        "  writes the definition: no findings",
        "  runs a trial: it would have completed",
        "  files the proposal",
    ]
    assert "for greeting" in said.out and "by the model default" in said.out and "+ text (set) at /steps/0" in said.out
    assert len(fake.requests) == TURNS
    id = shell.ok("proposal ls -o ids").strip()
    assert f"perdure proposal review {id} --approve" in said.err
    shell.ok(f"proposal review {id} --approve")
    assert "greeting is at version" in shell.ok(f"proposal apply {id}")


def test_a_change_is_proposed_as_json_with_words_from_standard_input(shell: Shell) -> None:
    shell.ok("workflow publish -", PRESENT)
    change = calls(1, "write_definition", replace=[{"find": "{n: 1}", "with": "{n: 2}"}])
    with served(shell, [change, calls(2, "propose_definition", note="two")]) as (fake, file):
        said = shell.run(f"propose invoice --words - --models {file} --model small --max-turns 5 --json", "It should be two\n")
    assert said.code == 0, said.err
    found = json.loads(said.out)
    assert found["proposal"]["diff_text"] == "~ note: set.n: 1 -> 2" and found["proposal"]["model"] == "small"
    assert (found["agent"]["words"], found["agent"]["slug"], found["agent"]["calls"]) == ("It should be two\n", "invoice", 2)
    assert found["agent"]["document"] == PRESENT.replace("{n: 1}", "{n: 2}")
    assert "It should be two" in json.dumps(fake.requests[0])


def test_a_model_that_does_not_get_there_leaves_the_nearest_document_and_how_to_go_on(shell: Shell) -> None:
    wrong = NEW.replace("set:", "sett:")
    with served(shell, [calls(1, "write_definition", document=wrong), calls(2, "write_definition", document=wrong), *greeting()[2:]]) as (_, file):
        said = shell.run(f"propose --words 'Greet somebody' --models {file} --max-turns 2 --id one")
        assert (said.code, said.out) == (40, wrong)
        assert "nothing was proposed after 2 model calls" in said.err and "line 6: " in said.err and "did you mean 'set'?" in said.err
        assert "perdure retry perdure.propose/one grants the budget once more" in said.err
        as_data = json.loads(shell.run(f"propose --words 'Greet somebody' --models {file} --max-turns 2 --id one --json").out)
    assert as_data["proposal"] is None and as_data["agent"]["document"] == wrong and as_data["agent"]["findings"][0]["line"] == 6


def test_a_model_that_gives_up_says_why(shell: Shell) -> None:
    with served(shell, [calls(1, "give_up", reason="No tool sends a fax.")]) as (_, file):
        said = shell.run(f"propose --words 'Send a fax' --models {file}")
    assert (said.code, said.out) == (40, "")
    assert "nothing was proposed after 1 model call" in said.err and "No tool sends a fax." in said.err and "retry" not in said.err


def test_what_can_not_be_asked_is_explained(shell: Shell) -> None:
    shell.ok("workflow publish -", PRESENT.replace("allow: {self_edit: true}\n", ""))
    without = shell.run("propose --words 'Greet somebody'")
    assert (without.code, "docs/guides/models.md" in without.err) == (10, True)
    with served(shell, []) as (fake, file):
        for words, told in {
            f"propose invoice --words x --models {file}": "does not allow proposals",
            f"propose other --words x --models {file}": "there is no definition 'other'",
            f"propose invoice --new --words x --models {file}": "there is a definition 'invoice' already",
            f"propose --words ' ' --models {file}": "what the workflow should do",
            f"propose --words x --models {file} --prompt-folder {shell.directory}": "a folder with prompt.md",
        }.items():
            said = shell.run(words)
            assert (said.code, told in said.err) == (45 if "already" in told else 10, True), said
        assert not fake.requests
    for words in ("propose", "propose --words x --file y", "propose --words x --note y", "propose --file x --model y", "propose --words x --max-cost 0"):
        assert shell.run(words).code == 20
    for option in (f"--models {file}", "--tools tools.py"):
        refused = CliRunner().invoke(root, ["--server", "http://127.0.0.1:9", *shlex.split(f"propose --words x {option}")], prog_name="perdure")
        assert refused.exit_code == 20, refused.output
        assert f"with its own models and tools; leave {option.split()[0]} out" in " ".join(refused.stderr.split()), refused.output
    alone = shell.run("propose --words x --tools tools.py")
    assert (alone.code, "--tools is for an agent that runs in this process, with --models" in alone.err) == (20, True), alone
    unknown = shell.run(f"propose --words x --models {file} --model huge")
    assert (unknown.code, "the engine has no model 'huge'; it has default, large, medium, small" in unknown.err) == (40, True)


def test_the_prompt_is_printed_copied_and_replaced(shell: Shell) -> None:
    assert "- `approve`: people decide" in shell.ok("propose --print-prompt")
    folder = shell.directory / "ours"
    assert str(folder / "prompt.md") in shell.ok(f"propose --export-prompt {folder}")
    _ = (folder / "prompt.md").write_text("Write it in our way.", encoding="utf-8")
    assert shell.ok(f"propose --print-prompt --prompt-folder {folder}") == "Write it in our way.\n"
    rules = greeting()
    rules[0]["when"] = {"turn": 1, "system": "Write it in our way."}
    with served(shell, rules) as (_, file):
        said = shell.run(f"propose --words 'Greet somebody' --models {file} --prompt-folder {folder}")
    assert said.code == 0, said.err


@pytest.mark.slow
@pytest.mark.parametrize("turn", [1, *(pytest.param(turn, marks=pytest.mark.prove) for turn in range(2, TURNS + 1))])
def test_a_command_that_is_killed_in_a_turn_continues_there(shell: Shell, turn: int) -> None:
    with served(shell, greeting("0.7s")) as (fake, file):
        words = ["--db", shell.db, "propose", "--words", "Greet somebody", "--models", str(file), "--id", "one"]
        running = subprocess.Popen([sys.executable, "-m", "perdure.cli", *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            until_s = time.monotonic() + 60
            while len(fake.requests) < turn:  # the answer takes its time
                assert time.monotonic() < until_s and running.poll() is None
                time.sleep(0.02)
        finally:
            os.kill(running.pid, signal.SIGKILL)
            _ = running.wait()
        said = shell.run(f"propose --words 'Greet somebody' --models {file} --id one")
    assert said.code == 0, said.err
    assert "found perdure.propose/one" in said.err
    assert len(shell.ok("proposal ls -o ids").splitlines()) == 1
    assert len(fake.requests) <= TURNS + 1, "only the call in flight was made again"


@pytest.mark.slow
def test_on_a_server_an_engine_there_works_for_whoever_asks_who_does_not_review_it(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = shell.directory
    roles = {"viewer": ("viewer",), "operator": ("viewer", "operator"), "author": ("viewer", "operator", "author")}
    keys = {name: new_key(directory, *(part for role in having for part in ("--role", role))) for name, having in roles.items()}
    admin = new_key(directory)
    with served(shell, greeting()) as (_, file), serving(directory, "--models", str(file), "--no-console") as process:

        def run(role: str, words: str, stdin: str = "") -> Said:
            monkeypatch.setenv("PERDURE_TOKEN", admin if role == "admin" else keys[role])
            result = CliRunner().invoke(root, ["--server", process.url, *shlex.split(words)], input=stdin, prog_name="perdure")
            return Said(result.exit_code, result.stdout, result.stderr)

        for role, needs in (("viewer", "operator"), ("operator", "author")):
            refused = run(role, "propose --words 'Greet somebody'")
            assert refused.code == 46 and f"needs the role {needs}" in refused.err, refused
        said = run("author", "propose --words 'Greet somebody' --json")
        assert said.code == 0, said.err
        found = json.loads(said.out)
        id = found["proposal"]["id"]
        assert (found["proposal"]["proposed_by"], found["proposal"]["model"]) == (found["agent"]["asked_by"], "default")
        own = run("author", f"proposal review {id} --approve")
        assert own.code == 46 and "may not review this proposal" in own.err
        assert "is approved" in run("admin", f"proposal review {id} --approve").out
        assert process.request("GET", f"/api/proposal-agents/{found['agent']['id']}", key=keys["viewer"]).json["proposal"] == id
        started = process.request("POST", "/api/executions", {"workflow": "perdure.propose", "input": [{"words": "x"}]}, key=keys["author"])
        assert (started.status, started.json["code"]) == (403, "forbidden"), "nobody begins one but by the operation, which says who has asked"
