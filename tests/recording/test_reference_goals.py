"""Of the references that are found, 95 % are right, and 75 % of those that are there are found."""

from collections.abc import Iterable

import pytest

from tests.recording.generated_sessions import (
    HELD_OUT_SEEDS,
    GeneratedSession,
    Score,
    generated,
    literal_copies,
    score,
    total,
    with_references,
)
from tests.recording.recorded_examples import found_of

PRECISION, RECALL = 0.95, 0.75


def scored(sessions: Iterable[GeneratedSession], *, plain: bool = False) -> Score:
    return total(score(session, found_of(session, plain=plain)) for session in sessions)


@pytest.mark.slow
def test_the_goals_are_met_on_the_held_out_sessions() -> None:
    found = scored(generated(HELD_OUT_SEEDS))
    assert found.tp > 1000
    assert found.precision >= PRECISION
    assert found.recall >= RECALL


@pytest.mark.prove
def test_the_goals_are_met_on_sessions_that_were_recorded_with_references() -> None:
    found = scored(literal_copies(map(with_references, generated(HELD_OUT_SEEDS))), plain=True)
    assert found.tp > 1000
    assert found.precision >= PRECISION
    assert found.recall >= RECALL
