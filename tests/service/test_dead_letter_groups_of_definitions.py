"""Dead letters of definitions say at which step they failed, why, after how many tries and with what input; different steps are different groups."""

from typing import Any

import pytest

from perdure import Definition, Retry, step
from perdure.core import log_format
from perdure.core.replay import fold_events
from perdure.service import dead_letter_groups
from perdure.service.dead_letter_groups import DeadLetter
from perdure.testing import World


@step(retry=Retry(max=3, wait="1s", jitter=0))
def BOOM(**given: Any) -> None:
    raise ValueError("boom")


def ECHO(**given: Any) -> Any:
    return given


def failed_dead_letter(world: World, steps: list[dict[str, Any]], **more: Any) -> DeadLetter:
    """What is said of an execution of a definition with these steps, which fails."""
    document = {"perdure": 1, "name": "fails", "order": "listed", "steps": steps, **more}
    run = world.start(Definition.of(document, tools={"BOOM": BOOM, "ECHO": ECHO}))
    world.skip("1m")
    assert run.status == "failed"
    found = world.machine.read(run.key)
    assert found is not None
    letter = dead_letter_groups.dead_letter_of(fold_events(run.key, log_format.decode_rows(found.payloads)))
    assert letter is not None
    return letter


BROKEN = {"id": "broken", "tool": "BOOM", "with": {"n": 1}}


@pytest.mark.parametrize(
    ("steps", "more", "said"),
    [
        ([BROKEN], {}, ("broken", "max_retries_exceeded", 3)),
        ([{"id": "a", "do": [{"id": "b", "parallel": [BROKEN]}]}], {}, ("a/b/broken", "max_retries_exceeded", 3)),
        ([BROKEN | {"each": {"in": [1, 2]}}], {}, ("broken/~0", "max_retries_exceeded", 3)),
        ([BROKEN | {"retry": {"fatal": ["ValueError"], "max": 3}}], {}, ("broken", "fatal", 1)),
        ([{"id": "late", "task": "work", "timeout": 5, "retry": {"max": 1}}], {}, ("late", "timeout", 1)),
        ([{"id": "many", "each": {"in": [1, 2, 3]}, "tool": "ECHO"}], {"limits": {"max_fanout": 2}}, ("many", "exceeded_max_fanout", 0)),
        ([{"id": "own", "fail": "no"}], {}, ("own", "failed", 0)),
        ([{"id": "a", "tool": "ECHO"}, {"id": "b", "tool": "ECHO"}], {"limits": {"max_steps": 1}}, ("b", "exceeded_max_steps", 0)),
        ([BROKEN | {"undo": {"tool": "ECHO"}}, {"id": "never", "tool": "ECHO"}], {}, ("broken", "max_retries_exceeded", 3)),
        ([{"id": "done", "tool": "ECHO", "undo": {"tool": "ECHO"}}, BROKEN], {}, ("broken", "max_retries_exceeded", 3)),
    ],
)
def test_a_dead_letter_has_the_step_the_reason_and_the_tries(world: World, steps: Any, more: Any, said: tuple[str, str, int]) -> None:
    world.mock("work", takes="1h")
    letter = failed_dead_letter(world, steps, **more)
    assert (letter.path, letter.reason, letter.attempts) == said


@pytest.mark.slow
def test_the_same_error_at_different_steps_is_two_groups() -> None:
    fingerprints = []
    for id in ("one", "other", "one"):
        with World() as world:
            fingerprints.append(failed_dead_letter(world, [BROKEN | {"id": id}]).fingerprint)
    assert fingerprints[0] == fingerprints[2] != fingerprints[1]


def test_the_deadline_is_a_reason_of_its_own(world: World) -> None:
    letter = failed_dead_letter(world, [{"id": "waits", "sleep": 100}], limits={"deadline": 5})
    assert (letter.path, letter.reason) == ("", "deadline_exceeded")


def echo(**more: Any) -> dict[str, Any]:
    return {"tool": "ECHO", "with": {"text": "x" * 100}, **more}


ROUND = [echo(id="a", next="b"), echo(id="b", next=[{"to": "a", "endless": True}])]
TWICE = [echo(id="a", next=["b", "c"]), echo(id="b", next="d"), echo(id="c", next="d"), echo(id="d", join="each", next="e"), echo(id="e")]


@pytest.mark.parametrize(
    ("steps", "limits", "said"),
    [
        (ROUND, {"max_hops": 5}, ("b", "exceeded_max_hops")),
        ([echo(id="a", next="b"), echo(id="b", next="c"), echo(id="c")], {"max_bytes": 150}, ("b", "exceeded_max_bytes")),
        (TWICE, {}, ("d#2", "unsafe_loop")),
    ],
    ids=lambda one: one[1] if isinstance(one, tuple) else "",
)
def test_a_limit_of_a_graph_of_tokens_is_a_reason_of_its_own_with_the_step_that_went_beyond(
    world: World, steps: Any, limits: dict[str, Any], said: tuple[str, str]
) -> None:
    letter = failed_dead_letter(world, steps, order="ports", dialect="token_graph", limits=limits)
    assert (letter.path.split("/")[-1], letter.reason, letter.type) == (*said, said[1])
