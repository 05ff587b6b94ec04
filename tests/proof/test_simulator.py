"""Claims about simulated worlds: whatever crashes, freezes or is sent twice, everything ends as predicted, and no effect happens once too often."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from random import Random

import pytest
from msgspec.structs import replace

from perdure.testing.faults import Faults
from tests.proof import program_nodes as n
from tests.proof.program_generator import generate
from tests.proof.simulator import Options, SimulationReport, drawn, main, simulate
from tests.proof.world_options import Kind
from tests.sampling import some

WORLDS = 2
BATCH = 2
PROVED = 10_000
PROVED_IN_FILES = 2_000
PROVED_BATCH = 100

FAULTS = """
arrived twice, blackouts, delayed after, delayed before, deploys, diverged, epochs, failed after, failed before, frozen after, frozen before, handed over,
handed over again, killed after, killed at a time, killed before, lost notification, pauses, resend, stopped, stray answers, torn,
settled in the grace, abandoned after the grace, never begun, Stopped, undone, undone in doubt
""".replace("\n", " ")

SEEDS_OF_ALL_FAULTS = (11, 17, 23, 261, 353)

DIGESTS = """
from tests.proof.simulator import drawn, simulate
for seed in range(2):
    programs, options = drawn(seed, always_suspend=seed % 2 == 1)
    print(simulate(programs, seed, options).digest)
"""


def world(seed: int, *, faults: bool = True, always_suspend: bool = False) -> SimulationReport:
    """Run the world of `seed`; it must have no problems."""
    programs, options = drawn(seed, faults=faults, always_suspend=always_suspend)
    report = simulate(programs, seed, options)
    assert not report.problems, "\n".join((*report.problems, f"see it again: {report.command}"))
    return report


@pytest.mark.slow
@pytest.mark.parametrize("always_suspend", [False, True], ids=["warm", "always suspend"])
@pytest.mark.parametrize("first", range(0, WORLDS, BATCH))
def test_worlds_full_of_faults_end_as_predicted(first: int, always_suspend: bool) -> None:
    for seed in range(first, first + BATCH):
        world(seed, always_suspend=always_suspend)


@pytest.mark.slow
@pytest.mark.parametrize("always_suspend", [False, True], ids=["warm", "always suspend"])
@pytest.mark.parametrize("first", range(0, WORLDS, BATCH))
def test_where_nothing_fails_each_effect_happens_as_often_as_predicted(first: int, always_suspend: bool) -> None:
    for seed in range(first, first + BATCH):
        report = world(seed, faults=False, always_suspend=always_suspend)
        assert report.counts["kills"] == report.counts["interruptions"] == report.counts["zombies"] == report.counts.get("Conflict", 0) == 0, report.command


@pytest.mark.parametrize("seed", [397, 1227])
def test_messages_that_arrive_in_two_commits_change_nothing_of_what_is_predicted(seed: int) -> None:
    world(seed, faults=False, always_suspend=True)


@pytest.mark.prove
def test_every_kind_of_fault_happens() -> None:
    happened: Counter[str] = Counter()
    wanted = {fault.strip() for fault in FAULTS.split(",")}
    for seed in SEEDS_OF_ALL_FAULTS:
        happened.update(world(seed).counts)
    assert {fault for fault in wanted if not happened[fault]} == set(), "if other worlds are drawn now, look for seeds that have all faults"


@pytest.mark.slow
@pytest.mark.parametrize("worlds", [pytest.param(2, id="two"), pytest.param(12, id="twelve", marks=pytest.mark.prove)])
def test_a_copy_by_the_change_feed_equals_the_store_of_a_world_whatever_happens(worlds: int) -> None:
    counts = Counter[str]()
    for seed in range(worlds):
        programs, options = drawn(seed)
        report = simulate(programs, seed, replace(options, reaches=1, follows_feed=True))
        assert not report.problems, report.command
        counts.update(report.counts)
    assert counts["feeds"] >= worlds and counts["compared"] > 4 * worlds


def test_a_seed_is_the_same_world_again() -> None:
    assert world(2) == world(2)


@pytest.mark.slow
@pytest.mark.parametrize("hash_seed", some(["1", "2"], 1))
def test_a_seed_is_the_same_world_in_every_process(hash_seed: str) -> None:
    here = [world(seed, always_suspend=seed % 2 == 1).digest for seed in range(2)]
    environment = {**os.environ, "PYTHONPATH": str(Path(n.__file__).parents[2]), "PYTHONHASHSEED": hash_seed}
    there = subprocess.run([sys.executable, "-c", DIGESTS], env=environment, capture_output=True, text=True, check=True)
    assert there.stdout.split() == here


def twins(seed: int, always_suspend: bool, store: Kind = "sqlite") -> None:
    """Run the world of `seed` on a store in a file (or a server) and on one in memory; both must end as predicted, and have written the same."""
    programs, options = drawn(seed, always_suspend=always_suspend, store=store)
    options = replace(options, follows_feed=False)  # how far a page goes differs, and so does how often a reader compares
    there, in_memory = simulate(programs, seed, options), simulate(programs, seed, replace(options, store="memory"))
    assert not there.problems, "\n".join((*there.problems, f"see it again: {there.command}"))
    assert there == replace(in_memory, options=options), f"other rows were written than in memory: {there.command}"


@pytest.mark.slow
@pytest.mark.parametrize("always_suspend", [False, True], ids=["warm", "always suspend"])
@pytest.mark.parametrize("seed", some(range(3), 1))
def test_a_seed_is_the_same_world_in_a_file_as_in_memory_byte_for_byte(seed: int, always_suspend: bool) -> None:
    twins(seed, always_suspend)


@pytest.mark.parametrize("always_suspend", [False, True], ids=["warm", "always suspend"])
@pytest.mark.parametrize("store", ["memory", pytest.param("sqlite", marks=pytest.mark.prove)])
def test_pauses_change_nothing_of_what_comes_of_a_program(store: Kind, always_suspend: bool) -> None:
    counts: Counter[str] = Counter()
    for seed in range(2):
        programs = [generate(Random(seed), 12), generate(Random(-1 - seed), 6)]
        report = simulate(programs, seed, Options(store=store, always_suspend=always_suspend, pause_every_s=0.5, kills_max=1, trouble_s=60.0))
        assert not report.problems, f"seed {seed}: " + "\n".join(report.problems)
        counts.update(report.counts)
    assert counts["Parked"] > 2 and counts["interruptions"] == counts["kills"] == 0


@pytest.mark.parametrize("seed", some(range(5), 2))
def test_a_message_that_is_there_wins_over_a_timeout_that_passed_while_nobody_was(seed: int) -> None:
    program = n.Program(n.Listen("m", 20.0, (None,)), (n.Message(10.0, "m", "heard in time", "key"),))
    report = simulate(program, seed, Options(as_written=True, blackouts_at_s=(5.0,), blackout_s=60.0, kills_max=99, trouble_s=80.0))
    assert not report.problems, "\n".join(report.problems)


WEATHERS = {
    "commits fail": Faults(fail_before=0.2, fail_after=0.2, failing=frozenset({"commit"})),
    "batches are torn": Faults(tear=0.5),
    "claims fail": Faults(fail_before=0.2, fail_after=0.3, failing=frozenset({"claim"})),
    "claims fail and all is slow": Faults(fail_before=0.2, fail_after=0.2, failing=frozenset({"claim"}), delay=1.0),
    "reads fail": Faults(fail_before=0.3, fail_after=0.3, failing=frozenset({"read", "blob"})),
    "renewals fail": Faults(fail_before=0.5, fail_after=0.3, failing=frozenset({"renew"})),
    "all comes twice": Faults(resend=0.7, lose_notification=0.5),
    "engines freeze": Faults(freeze=0.05),
}
"""What befalls engines that nobody kills."""


@pytest.mark.slow
@pytest.mark.parametrize("always_suspend", [False, True], ids=["warm", "always suspend"])
@pytest.mark.parametrize("weather", WEATHERS)
@pytest.mark.parametrize("seed", some(range(3), 1))
def test_engines_that_live_on_weather(seed: int, weather: str, always_suspend: bool) -> None:
    programs = [generate(Random(seed), 12), generate(Random(-1 - seed), 6)]
    report = simulate(programs, seed, Options(always_suspend=always_suspend, faults=WEATHERS[weather], kills_max=1, trouble_s=60.0))
    assert not report.problems, "\n".join(report.problems)


@pytest.mark.parametrize("seed", some(range(20), 4))
def test_what_an_engine_has_let_go_does_not_come_back_to_life(seed: int) -> None:
    waits = n.Sequence(tuple(n.Sleep(1.5) for _ in range(6)))
    works = n.Sequence(tuple(n.Step(f"s{number}", n.Answers(duration_s=1.0), timeout_s=60.0) for number in range(6)))
    program = n.Program(n.Join({"waits": waits, "works": works}))
    report = simulate(program, seed, Options(faults=WEATHERS["claims fail and all is slow"], kills_max=1, trouble_s=40.0))
    assert not report.problems, "\n".join(report.problems)


def in_two_branches(step: n.Step) -> n.Program:
    """The step, side by side with itself."""
    return n.Program(n.Join({"a": step, "b": n.Step("other", step.behaviour, step.form, step.tries, step.timeout_s)}))


@pytest.mark.slow
@pytest.mark.parametrize("seed", some(range(5), 2))
def test_a_step_whose_engine_dies_is_interrupted_and_not_late(seed: int) -> None:
    program = in_two_branches(n.Step("one", n.Answers(1, duration_s=3.0), tries=1, timeout_s=10.0))
    report = simulate(program, seed, Options(as_written=True, blackouts_at_s=(2.0,), blackout_s=30.0, kills_max=99, trouble_s=60.0))
    assert not report.problems, "\n".join(report.problems)
    assert report.counts["interruptions"] == 2


@pytest.mark.slow
@pytest.mark.parametrize("seed", some(range(3), 1))
def test_steps_that_are_interrupted_too_often_are_parked_and_all_resumed(seed: int) -> None:
    program = in_two_branches(n.Step("one", n.Answers(1, duration_s=8.0)))
    report = simulate(program, seed, Options(engines=1, kill_every_s=3.0, kills_max=99, trouble_s=500.0))
    assert not report.problems, "\n".join(report.problems)
    assert report.counts["Parked"] >= 2
    assert report.counts["Resumed"] >= 1


def changed_everywhere(turns: int = 3) -> n.Program:
    """A program whose every place is changed by two deploys: in turns, items, children and branches that lose."""

    def change(name: str) -> tuple[n.Node, ...]:
        ways = (n.Keep(f"{name} 1"), n.Sequence((n.Sleep(0.5), n.Step(f"{name} 2"))), n.Call(f"{name} child", n.Step(f"{name} 3")))
        return n.Changed(f"{name} gate", ways), n.Removed(n.Step(f"{name} gone", n.Answers(1, 1)), 1), n.Step(f"{name} stays", n.Answers(name))

    loses = n.Sequence((*change("lost"), n.Listen("never")))
    nodes = (
        n.Loop("loop", turns, n.Sequence(change("turn")), {"commit_every": 2}),
        n.Map((1, 2), n.Sequence(change("item"))),
        n.Call("child", n.Sequence(change("inner"))),
        n.Race({"a": loses, "b": n.Sequence(change("won"))}),
        *change("last"),
    )
    return n.Program(n.Sequence(nodes))


@pytest.mark.slow
@pytest.mark.parametrize("pinned", [False, True], ids=["gates", "versions"])
@pytest.mark.parametrize("always_suspend", [False, True], ids=["warm", "always suspend"])
@pytest.mark.parametrize("first", some((0, 2, 4), 1))
def test_executions_go_on_while_newer_code_comes_and_older_code_parks_what_it_does_not_know(first: int, always_suspend: bool, pinned: bool) -> None:
    counts: Counter[str] = Counter()
    for seed in range(first, first + 2):
        options = Options(engines=3, always_suspend=always_suspend, deploys_at_s=(1.0, 4.0), rollout_s=5.0, pinned=pinned)
        report = simulate(changed_everywhere(12), seed, options)
        assert not report.problems, f"seed {seed}: " + "\n".join(report.problems)
        counts.update(report.counts)
    assert counts["deploys"] == 4 and (counts["diverged"] == 0) == pinned


@pytest.mark.slow
@pytest.mark.parametrize("seed", some(range(4), 2))
def test_engines_may_die_at_any_time_between_deploys(seed: int) -> None:
    faults = Faults(kill_before=0.03, kill_after=0.03, delay=0.2)
    options = Options(engines=3, faults=faults, kill_every_s=1.0, kills_max=60, deploys_at_s=(1.0, 8.0), rollout_s=10.0, pinned=seed % 2 == 1)
    report = simulate([changed_everywhere(), changed_everywhere(8)], seed, options)
    assert not report.problems, "\n".join(report.problems)
    assert report.counts["kills"] > 10


def in_queues(program: n.Program, *names: str) -> n.Program:
    """The program, all of whose steps and children are in queues, one in this and the next in that."""
    queue = iter(names * 1000)

    def put(node: n.Node) -> n.Node:
        return replace(node, queue=next(queue)) if isinstance(node, n.Step | n.Call) else node

    return replace(program, root=n.rebuilt(program.root, put), queue=names[0])


LINES = (n.Line("narrow", concurrency=1), n.Line("keyed", per_key=1), n.Line("slow", interval_s=0.5, burst=2), n.Line("wide"))


@pytest.mark.parametrize("line", LINES, ids=lambda line: line.name)
@pytest.mark.parametrize("an_engine_serves", [False, True], ids=["workers", "workers and engines"])
@pytest.mark.parametrize("seeds", [pytest.param(1, id="one"), pytest.param(3, id="three", marks=pytest.mark.prove)])
def test_whoever_dies_no_limit_is_exceeded_and_nothing_starves(seeds: int, line: n.Line, an_engine_serves: bool) -> None:
    counts: Counter[str] = Counter()
    for seed in range(seeds):
        programs = [in_queues(changed_everywhere(), line.name), in_queues(changed_everywhere(), line.name)]
        faults = Faults(kill_before=0.02, kill_after=0.02, freeze=0.01)
        options = Options(workers=3, lines=(line,), an_engine_serves=an_engine_serves, faults=faults, kill_every_s=1.0, epoch_every_s=20.0, kills_max=40)
        report = simulate(programs, seed, options)
        assert not report.problems, f"seed {seed}: " + "\n".join(report.problems)
        counts.update(report.counts)
    assert counts["kills"] > 20 * seeds and counts["handed over"] > 5 * seeds and (counts["handed over again"] > 0 or seeds == 1)


FOUND = {353: True, 73: False, 577: True, 2365: False, 2837: True, 10761: False, 20123: True}
"""Worlds in which something was found, when engines asked for work every second; and whether they always suspend."""


@pytest.mark.slow
@pytest.mark.parametrize("seed", some(FOUND, 1))
def test_what_was_found_once_does_not_come_back(seed: int) -> None:
    programs, options = drawn(seed, always_suspend=FOUND[seed])
    report = simulate(programs, seed, replace(options, poll_s=1.0))
    assert not report.problems, "\n".join(report.problems)


def test_the_command_prints_the_report_of_a_seed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seed", "3", "--always-suspend"]) == 0
    printed = capsys.readouterr().out
    assert '"problems": []' in printed
    assert "python -m tests.proof.simulator --seed 3 --always-suspend" in printed


@pytest.mark.prove
def test_the_command_runs_worlds_in_files(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seed", "4", "--store", "sqlite"]) == 0
    assert "python -m tests.proof.simulator --seed 4 --store sqlite" in capsys.readouterr().out


@pytest.mark.prove
@pytest.mark.parametrize("always_suspend", [False, True], ids=["warm", "always suspend"])
@pytest.mark.parametrize("first", range(100_000, 100_000 + PROVED_IN_FILES // 2, PROVED_BATCH))
def test_two_thousand_worlds_in_files_end_as_predicted_and_are_those_in_memory(first: int, always_suspend: bool) -> None:
    for seed in range(first, first + PROVED_BATCH):
        twins(seed, always_suspend)


@pytest.mark.prove
@pytest.mark.parametrize("always_suspend", [False, True], ids=["warm", "always suspend"])
@pytest.mark.parametrize("first", range(1000, 1000 + PROVED // 2, PROVED_BATCH))
def test_ten_thousand_worlds_end_as_predicted(first: int, always_suspend: bool) -> None:
    for seed in range(first, first + PROVED_BATCH):
        world(seed, always_suspend=always_suspend)
