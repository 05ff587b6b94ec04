"""Secrets: a tool is given them, and no log, result of a mistake or other step has them."""

from typing import Any

import pytest

from perdure import Definition, ExecutionFailed, step
from perdure.core import log
from perdure.testing import World

CANARY = "canary-of-the-test"


def started(world: World, given: Any, found: Any, **more: Any) -> Any:
    seen: list[Any] = []

    @step
    def send(token: str, to: list[dict[str, str]]) -> str:
        seen.append((token, to))
        return "sent"

    steps = [{"id": "a", "tool": "send", "with": given, "retry": {"max": 1}, **more}]
    document = {"perdure": 1, "name": "it", "steps": steps}
    run = world.start(Definition.of(document, tools=[send], secrets=found))
    return run, seen


@pytest.mark.parametrize(("token", "seen"), [("@secrets.TOKEN", CANARY), ("Bearer @{secrets.TOKEN}", f"Bearer {CANARY}")])
def test_a_tool_is_given_the_secret_and_no_log_has_it(world: World, token: str, seen: str) -> None:
    run, given = started(world, {"token": token, "to": [{"a/b~c": "@secrets.OTHER"}]}, {"TOKEN": CANARY, "OTHER": f"{CANARY}-2"})
    assert run.result() == "sent" and given == [(seen, [{"a/b~c": f"{CANARY}-2"}])]
    found = world.machine.read(run.key)
    assert found is not None
    assert CANARY not in repr(log.decode_all(found.rows)) and CANARY not in world.trace()


def test_who_has_no_such_secret_says_so(world: World) -> None:
    run, given = started(world, {"token": "@secrets.TOKEN", "to": []}, {"OTHER": CANARY})
    with pytest.raises(ExecutionFailed, match="there is no secret TOKEN where this runs"):
        run.result()
    assert given == []


@pytest.mark.parametrize(("found", "more"), [(None, {}), ({"TOKEN": CANARY}, {"undo": {"tool": "send", "with": {"token": "x", "to": []}}})])
def test_without_secrets_a_step_that_reads_one_fails_and_what_stands_for_it_goes_nowhere(world: World, found: Any, more: Any) -> None:
    run, given = started(world, {"token": "@secrets.TOKEN", "to": []}, found, **more)
    if found is None:
        with pytest.raises(ExecutionFailed, match="nothing gives it one here"):
            run.result()
        assert given == []
    else:
        assert run.result() == "sent" and given == [(CANARY, [])]


def test_what_data_says_of_secrets_is_data(world: World) -> None:
    run, given = started(world, {"token": "@secrets.TOKEN", "to": [{"x": "y"}]}, {"TOKEN": CANARY})
    assert run.result() == "sent" and given == [(CANARY, [{"x": "y"}])]
    document = {"perdure": 1, "name": "other", "input": {"x": {}}, "steps": [{"id": "b", "tool": "say", "with": {"v": "@input.x"}}]}
    tools: Any = {"say": lambda v: v}
    mark = {"@secret": "TOKEN"}
    assert world.run(Definition.of(document, tools=tools, secrets={"TOKEN": CANARY}), x=mark) == mark
