"""The sample of small changes is drawn by its seed, each change differs from the source, and what survives is reported."""

import ast
import time

import pytest

from tools import mutation_sample
from tools.mutation_sample import Mutant, Verdict
from tools.package_copies import ROOT, source_of

AMONG = ["core.mailbox", "stores.memory_queues"]


@pytest.mark.slow
def test_a_seed_draws_the_same_changes_and_each_changes_the_source() -> None:
    drawn = mutation_sample.sample(7, 8, AMONG)
    assert drawn == mutation_sample.sample(7, 8, AMONG) != mutation_sample.sample(8, 8, AMONG)
    assert len({(mutant.module, mutant.line, mutant.what) for mutant in drawn}) == len(drawn)
    for mutant in drawn:
        unchanged = ast.unparse(ast.parse(source_of(mutant.module).read_text()))
        assert mutant.source != unchanged, mutant.what
        compile(mutant.source, mutant.module, "exec")


def test_every_sampled_module_has_tests_that_exist() -> None:
    among = mutation_sample.modules()
    assert {"core.decision", "runtime.engine", "stores.memory", "stores.sqlite.store_tables", "code.code_program", "definitions.graph.token_walk"} <= set(among)
    for module in among:
        assert all((ROOT / word).exists() for command in mutation_sample.commands(module) for word in command if word.startswith("tests/"))


@pytest.mark.slow
def test_none_begins_when_the_time_is_up() -> None:
    assert mutation_sample.judge_all(mutation_sample.sample(7, 3, AMONG), 1, time.monotonic()) == []


def test_the_report_has_the_share_and_what_was_not_noticed() -> None:
    verdicts = [
        Verdict(Mutant("core.mailbox", 12, "`a < b` became `a <= b`", ""), None, 1.0),
        Verdict(Mutant("core.mailbox", 13, "`f()` was removed", ""), "tests/core", 1.0),
    ]
    lines = mutation_sample.report(verdicts, 7)
    assert lines[0] == "1 of 2 small changes of the source were noticed by its tests (50%); seed 7."
    assert lines[-1] == "- `core.mailbox`, line 12: `a < b` became `a <= b`"
