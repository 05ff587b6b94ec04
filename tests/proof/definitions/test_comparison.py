"""Claims about comparisons with what was predicted, and with what happens undisturbed: what is the same does not differ, and every difference is told."""

import struct
from collections.abc import Callable, Sequence
from functools import cache
from random import Random

import pytest
from msgspec.structs import replace

from perdure.core import events as e
from perdure.core import values
from perdure.core.operations import CallOperation, Success
from perdure.core.paths import UNDO, Path
from perdure.testing.crash_points import CrashPoint, around_writes
from perdure.testing.world import World
from tests.proof.definitions import DefinitionPrediction, Facts, OutsideEvents, Ran, Undone, differs, random_case
from tests.proof.definitions.comparison import differs_from_undisturbed
from tests.proof.definitions.facts import Json
from tests.proof.definitions.runner import EventRecorder, played

RAN = (Ran("a", (), 1, tries=2), Ran("b", ("b[0]",), None, "exhausted"), Ran("b", ("b[1]",), "x"))
UNDONE = (Undone("c", ()), Undone("b", ("b[1]",), "x"), Undone("a", (), 1))
FACTS = Facts("failed", None, "exhausted", RAN, UNDONE, ({"n": 1},))
PREDICTED = DefinitionPrediction(FACTS, 5.0, together=(1,))


@pytest.mark.parametrize("at_s", [1e9, struct.unpack(">d", b"A\xcd'eeeee")[0], struct.unpack(">d", b"A\xcd\\'\"eee")[0]])
def test_the_time_of_a_decision_is_no_difference_whatever_its_bytes_are(at_s: float) -> None:
    def asks(at_s: float, by: str) -> list[e.Event]:
        return [e.OpenedEvent((("a", 1),), CallOperation("A", values.encode({"by": by, "at_s": at_s, "form": None}, "it")))]

    assert differs_from_undisturbed(asks(at_s, "ada"), asks(2e9, "ada")) == []
    assert len(differs_from_undisturbed(asks(at_s, "ada"), asks(2e9, "bob"))) == 2


def test_what_came_as_predicted_does_not_differ() -> None:
    for seed in range(20):
        prediction = random_case(Random(seed), 8).prediction
        assert differs(prediction, prediction.facts) == []


@pytest.mark.parametrize(
    "same",
    [
        lambda: replace(FACTS, ran=RAN[::-1]),
        lambda: replace(FACTS, ran=[replace(one, tries=0) for one in RAN]),
        lambda: replace(FACTS, failed=""),
        lambda: replace(FACTS, undone=(UNDONE[0], UNDONE[2], UNDONE[1])),
    ],
)
def test_what_is_free_is_not_a_difference(same: Callable[[], Facts]) -> None:
    assert differs(PREDICTED, same()) == []


@pytest.mark.parametrize(
    ("other", "says"),
    [
        (lambda: replace(FACTS, status="completed", result=3, failed=""), "it is completed (3), predicted was failed (exhausted)"),
        (lambda: replace(FACTS, result=False), "its result is false, predicted was null"),
        (lambda: replace(FACTS, failed="timeout"), "it failed as timeout, predicted was exhausted"),
        (lambda: replace(FACTS, ran=RAN[1:]), "a = 1 never ran"),
        (lambda: replace(FACTS, ran=(*RAN, RAN[0])), "a = 1 ran 2 times, not 1"),
        (lambda: replace(FACTS, ran=(*RAN, Ran("z", ("y~1",), True))), "y~1/z = true ran, which was not predicted"),
        (lambda: replace(FACTS, ran=(replace(RAN[0], tries=3), *RAN[1:])), "a = 1 took 3 tries, predicted were 2"),
        (lambda: replace(FACTS, ran=(replace(RAN[0], result=True), *RAN[1:])), "a = true ran, which was not predicted"),
        (lambda: replace(FACTS, undone=UNDONE[:2]), "a = 1 never was undone"),
        (lambda: replace(FACTS, undone=(UNDONE[1], UNDONE[0], UNDONE[2])), "predicted was the order"),
        (lambda: replace(FACTS, emitted=()), '{"n":1} never was emitted'),
    ],
)
def test_every_difference_is_told(other: Callable[[], Facts], says: str) -> None:
    assert any(says in line for line in differs(PREDICTED, other()))


BEFORE, LONG, FAILS = (("before", 1),), (("both", 1), ("long", 1)), (("both", 1), ("fails", 1))


def step(name: str, takes_s: float, **options: Json) -> dict[str, Json]:
    """A step that takes so long, and is undone."""
    return {"id": name, "tool": "ADD", "with": {"value": 1, "takes_s": takes_s} | options, "undo": {"tool": "UNDO"}, "retry": {"max": 1}}


FAILING = {
    "perdure": 1,
    "name": "small",
    "steps": [step("before", 1.0), {"id": "both", "needs": ["before"], "parallel": {"steps": [step("long", 10.0), step("fails", 2.0, fails=99)]}}],
}
"""One step fails while another is in flight, which ends within its grace and is undone."""


def failing(crash: CrashPoint | None = None) -> tuple[list[e.Event], list[int]]:
    """All events of it, and the numbers of the writes; the process is killed at `crash`."""
    with World(crash=crash) as world:
        kept = EventRecorder(world.machine.store)
        run = played(world, FAILING, OutsideEvents())
        return kept.events[run.key], [write.number for write in world.machine.writes]


@cache
def undisturbed() -> tuple[list[e.Event], list[int]]:
    """The same where nothing happens."""
    return failing()


def settled(events: Sequence[e.Event], path: Path) -> e.SettledEvent:
    """With what the operation at `path` ended."""
    return next(event for event in events if isinstance(event, e.SettledEvent) and event.path == path)


def test_a_step_whose_process_dies_in_its_grace_may_be_abandoned_where_undisturbed_it_is_answered_and_undone() -> None:
    expected, writes = undisturbed()
    assert settled(expected, LONG).outcome == Success(b"\x01")
    outcomes = set()
    for crash in around_writes(writes):
        events, _ = failing(crash)
        outcomes.add(getattr(settled(events, LONG).outcome, "kind", "answered"))
        assert differs_from_undisturbed(events, expected) == differs_from_undisturbed(expected, events) == [], crash
    assert outcomes == {"abandoned", "answered"}


@pytest.mark.parametrize("path", [BEFORE, LONG, FAILS, (UNDO, *BEFORE), (UNDO, *LONG)], ids=str)
def test_what_was_answered_otherwise_than_undisturbed_is_told(path: Path) -> None:
    expected, _ = undisturbed()
    right = settled(expected, path)
    wrong = [replace(event, outcome=Success(b"\x07")) if event is right else event for event in expected]
    found = differs_from_undisturbed(wrong, expected)
    assert len(found) == 2 and found[0].startswith(f"{path} comes to") and found[0].endswith("which it does not where nothing happens")
    assert found[1].startswith(f"{path} comes to") and found[1].endswith("where nothing happens, and here it does not")


@pytest.mark.parametrize("path", [BEFORE, (UNDO, *BEFORE), (UNDO, *LONG)], ids=str)
def test_what_was_not_asked_for_as_undisturbed_is_told(path: Path) -> None:
    expected, _ = undisturbed()
    less = [event for event in expected if not (isinstance(event, e.OpenedEvent) and event.path == path)]
    assert len(differs_from_undisturbed(less, expected)) == 1
