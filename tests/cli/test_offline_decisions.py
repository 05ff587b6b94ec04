"""Decisions and exit codes while no engine runs: what is recorded counts, is reported, and is not contradicted."""

from pathlib import Path

import pytest

from tests.cli.shell import Shell

pytestmark = pytest.mark.slow

TWO = """
perdure: 1
name: two
steps:
  - {id: first, approve: {title: "First?"}}
  - {id: second, approve: {title: "Second?"}}
output: ["@first.by", "@second.by"]
"""
CHILD = """
name: inner
steps: [{type: approval, id: ask, prompt: "Go on?"}]
"""
PARENT = """
name: outer
steps: [{type: subworkflow, id: part, workflowId: inner}]
"""
RUN = "run outer.yaml --calls inner.yaml --id o --no-wait"


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    """A shell in a directory with these definitions."""
    for name, text in (("two", TWO), ("inner", CHILD), ("outer", PARENT)):
        (tmp_path / f"{name}.yaml").write_text(text)
    monkeypatch.chdir(tmp_path)
    return Shell(f"sqlite:///{tmp_path}/perdure.db")


def test_with_all_decisions_recorded_the_exit_code_no_longer_says_that_it_waits_for_an_approval(shell: Shell) -> None:
    assert shell.run("run two.yaml --id t --no-wait").code == 31
    said = shell.run("approve t --path first --as ada --no-wait")
    assert (said.code, said.out) == (0, "two/t (First?) is approved by ada, which is recorded and takes effect when an engine runs\n")
    assert shell.run("result t").code == 31
    assert shell.run("reject t --path second --as bob --no-wait").code == 0
    said = shell.run("result t")
    assert said.code == 30 and "the decision is recorded, and takes effect when an engine runs" in said.err
    assert shell.run("run two.yaml --id t --no-wait").code == 41


def test_with_two_approvals_answered_the_next_run_goes_on_to_its_end(shell: Shell) -> None:
    assert shell.run("run two.yaml --id t --no-wait").code == 31
    assert [shell.run(f"approve t --path {place} --as ada --no-wait").code for place in ("first", "second")] == [0, 0]
    said = shell.run("run two.yaml --id t --no-wait")
    assert (said.code, said.out.split()) == (0, ["[", '"ada",', '"ada"', "]"])


def test_a_decision_against_one_that_is_recorded_is_refused(shell: Shell) -> None:
    assert shell.run("run two.yaml --id t --no-wait").code == 31
    assert shell.run("approve t --path first --as ada --no-wait").code == 0
    for again in ("reject t --path first --as bob --no-wait", "reject t --path first --as ada", "approve t --path first --as bob --timeout 1s"):
        said = shell.run(again)
        assert (said.code, said.out) == (46, "") and "the decision does not count" in said.err


def test_run_ends_when_a_child_asks_and_a_rejection_there_cancels_its_parent(shell: Shell) -> None:
    said = shell.run(RUN)
    assert said.code == 31 and "perdure approve inner/" in said.err
    (asked,) = shell.run("approvals -o ids").out.split()
    assert shell.run(f"reject {asked} --as ada --comment 'too dear' --no-wait").code == 0
    said = shell.run(RUN)
    assert said.code == 41 and "rejected by ada: too dear" in said.err
    assert shell.run("ls --status failed -o ids").out == ""
