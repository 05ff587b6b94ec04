"""Claims about the comparison of predictions with facts: what is the same does not differ, and every difference is told."""

from collections.abc import Callable
from random import Random

import pytest
from msgspec.structs import replace

from tests.proof.definitions import DefinitionPrediction, Facts, Ran, Undone, differs, random_case

RAN = (Ran("a", (), 1, tries=2), Ran("b", ("b[0]",), None, "exhausted"), Ran("b", ("b[1]",), "x"))
UNDONE = (Undone("c", ()), Undone("b", ("b[1]",), "x"), Undone("a", (), 1))
FACTS = Facts("failed", None, "exhausted", RAN, UNDONE, ({"n": 1},))
PREDICTED = DefinitionPrediction(FACTS, 5.0, together=(1,))


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
