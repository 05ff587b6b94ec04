"""Celery's canvas on Perdure: each primitive returns what it returns with Celery itself, and continues wherever it is killed."""

import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from examples.ports import canvas as port
from perdure import ExecutionCancelled, ExecutionFailed
from perdure.testing import World
from tests.examples.ports.processes import ROOT, Program

DOUBLES = [0, 2, 4, 6, 8, 10, 12, 14, 16, 18]
PAIRS = [(i, i) for i in range(10)]

PRIMITIVES: dict[str, tuple[Any, tuple[Any, ...], Any]] = {
    "chain": (port.chain, (), 16),
    "immutable_chain": (port.immutable_chain, (), [4, 8, 16]),
    "group": (port.group, (10,), DOUBLES),
    "chord": (port.chord, (10,), 90),
    "chain_into_group": (port.chain_into_group, (), [18, 80]),
    "mapped": (port.mapped, ([list(range(10)), list(range(100))],), [45, 4950]),
    "starmap": (port.starmap, (PAIRS,), DOUBLES),
    "chunks": (port.chunks, ([(i, i) for i in range(20)], 10), [DOUBLES, [one + 20 for one in DOUBLES]]),
    "linked": (port.linked, (), [4, 64]),
}
"""The primitives: the workflow, its input, and what it returns, as JSON has it."""

DIVISION = "ZeroDivisionError: integer division or modulo by zero"


@pytest.mark.perdure(crash_at="every")
@pytest.mark.parametrize("name", PRIMITIVES)
def test_a_primitive_returns_the_same_wherever_it_is_killed(world: World, name: str) -> None:
    workflow, arguments, expected = PRIMITIVES[name]
    assert json.loads(json.dumps(world.run(workflow, *arguments))) == expected


@pytest.mark.prove
def test_celery_itself_returns_the_same() -> None:
    command = [sys.executable, "-m", "tests.examples.ports.celery_canvas"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 0, ended.stderr
    results = json.loads(ended.stdout)
    assert {name: results[name] for name in PRIMITIVES} == {name: expected for name, (_, _, expected) in PRIMITIVES.items()}
    assert results["errback"] == ["ZeroDivisionError", DIVISION]
    assert results["chord_errback"] == [True, "ChordError: ZeroDivisionError('integer division or modulo by zero')", [30, 60]]
    assert results["retried"] == [4, [1, 2, 3, 4]]
    assert results["exhausted"] == ["ConnectionError", [1, 2, 3, 4]]
    assert results["eta_is_waited_for"]
    assert results["expired"] == "TaskRevokedError"


@pytest.mark.perdure(crash_at="every")
def test_an_errback_gets_the_error_of_its_task(world: World) -> None:
    assert world.run(port.errback) == DIVISION


@pytest.mark.slow
@pytest.mark.perdure(crash_at="every")
def test_a_failed_task_of_a_chord_leaves_the_others_their_results_and_calls_the_errback_once(world: World) -> None:
    run = world.start(port.chord_errback, [1, 0, 2])
    assert run.result() == (DIVISION, [30, 60])
    assert [step.path for step in run.steps() if step.target == "describe_error"] == ["describe_error"]
    assert world.run(port.chord_errback, [1, 3, 2]) == ("110", [60, 20, 30])


def test_three_retries_are_four_attempts_with_waits_that_double(world: World) -> None:
    before = world.now
    assert world.run(port.retried, 3) == 4
    assert timedelta(seconds=7 * 0.9) <= world.now - before <= timedelta(seconds=7)
    run = world.start(port.retried, 4)
    with pytest.raises(ExecutionFailed, match="ConnectionError: reset"):
        run.result()
    assert run.step("unsteady").attempts == 4


def test_a_task_may_say_when_it_is_retried(world: World) -> None:
    before = world.now
    assert world.run(port.retried_later, 2) == 3
    assert world.now - before == timedelta(seconds=60)


@pytest.mark.slow
@pytest.mark.perdure(crash_at="every")
def test_a_skewed_group_begins_one_task_a_second(world: World) -> None:
    run = world.start(port.skewed_group, 3)
    seen = []
    for _ in range(4):
        seen.append(len([step for step in run.steps() if step.target == "add"]))
        world.skip("1s")
    assert seen == [0, 1, 2, 3]
    assert run.result() == [2, 4, 6]


@pytest.mark.slow
@pytest.mark.perdure(crash_at="every")
def test_an_eta_and_a_countdown_are_waited_for_without_a_process(world: World) -> None:
    eta = world.now + timedelta(days=400)
    at_its_time = world.start(port.add_at, eta, 2, 2)
    counted_down = world.start(port.chain.with_(delay="3s"))
    world.skip("2s")
    assert not counted_down.steps()
    world.skip("1s")
    assert counted_down.result() == 16
    assert at_its_time.result() == 4
    assert world.now >= eta


@pytest.mark.prove
@pytest.mark.perdure(crash_at="every")
def test_a_rate_limit_holds_for_all_and_a_start_that_comes_too_late_expires(world: World) -> None:
    before = world.now
    runs = [world.start(port.newsletter.with_(id=f"n{number}"), f"reader {number}") for number in range(11)]
    late = world.start(port.newsletter.with_(id="late", ttl="30s"), "one too many")
    world.skip("80s")  # a slot more than without a crash: what was killed as it began is begun again within the rate
    sent = [run.result() for run in runs]
    assert timedelta(seconds=60) <= sent[10] - before <= timedelta(seconds=72)
    assert all(later - earlier >= timedelta(seconds=6) for earlier, later in pairwise(sent))
    with pytest.raises(ExecutionCancelled):
        late.result()


def contacts(file: Path) -> list[str]:
    """The contacts that were imported."""
    with closing(sqlite3.connect(file, timeout=30)) as connection:
        tables = connection.execute("SELECT count(*) FROM sqlite_master WHERE name = 'contacts'").fetchone()[0]
        return [address for (address,) in connection.execute("SELECT address FROM contacts ORDER BY address")] if tables else []


@pytest.mark.slow
@pytest.mark.perdure(crash_at="every")
def test_the_contacts_of_a_new_user_are_imported_once_and_the_notice_follows_them(world: World, tmp_path: Path) -> None:
    file, addresses = tmp_path / "contacts.db", ["ada@example.org", "bob@example.org", "carl@example.org"]
    assert world.run(port.new_user, "artv", str(file), addresses) == (3, "Welcome, user-artv")
    assert contacts(file) == addresses
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("SELECT * FROM notices").fetchall() == [("contacts-of-user-artv", 3)]


@pytest.mark.prove
def test_killed_in_the_middle_an_import_continues_and_imports_each_contact_once(tmp_path: Path) -> None:
    file, addresses = tmp_path / "contacts.db", [f"reader{number:03}@example.org" for number in range(300)]
    program = Program("canvas.py", [str(file), *addresses], tmp_path, {})
    for count in (50, 150):
        program.kill_when(lambda count=count: file.exists() and len(contacts(file)) >= count, f"{count} contacts")  # type: ignore[misc]  # a default binds it
        assert len(contacts(file)) < 300
    ended = program.finish()
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "300 contacts\n", "")
    assert contacts(file) == addresses
    with closing(sqlite3.connect(file)) as connection:
        assert [count for _, count in connection.execute("SELECT * FROM notices")] == [300], "the notice comes after the last contact"
