"""Guarding: a policy is held against what definitions do where they do it; what was decided stays decided."""

from typing import Any

import pytest

from perdure import Definition, ExecutionFailed
from perdure.code.results import Vote
from perdure.definitions.graph.step_kind import Capabilities, Kind
from perdure.testing import World

REFUND = {
    "perdure": 1,
    "name": "pay",
    "input": {"cents": {}},
    "order": "ports",
    "steps": [{"id": "a", "tool": "refund", "with": {"cents": "@input.cents"}, "next": ["b", "c"]}, {"id": "b", "set": {}}, {"id": "c", "set": {}}],
}


@pytest.fixture
def done() -> list[int]:
    return []


def paying(done: list[int], policy: Any, **more: Any) -> Definition:
    def refund(cents: int) -> int:
        done.append(cents)
        return cents

    return Definition.of(REFUND, tools=[refund], policy=policy, **more)


@pytest.mark.parametrize(
    ("policy", "why"),
    [
        ({"rules": [{"on": "start", "when": "input.cents > 1", "deny": "closed today"}]}, "pay may not be started: closed today"),
        ({"rules": [{"on": "tool", "when": "tool == 'refund'", "deny": "not here"}]}, "a may not use refund: not here"),
        ({"capabilities": [{"step": "a", "allowed_tools": ["look", "search"]}]}, "a tried to use 'refund', which is unauthorized; allowed are look, search"),
    ],
)
def test_what_is_denied_is_not_done(world: World, done: list[int], policy: Any, why: str) -> None:
    run = world.start(paying(done, policy), cents=5)
    with pytest.raises(ExecutionFailed, match=why):
        run.result()
    assert done == []


@pytest.mark.parametrize(
    ("policy", "why"),
    [
        ({"rules": [{"on": "transition", "when": "to == 'c'", "deny": "not to there"}]}, "a may not lead to c: not to there"),
        ({"capabilities": [{"workflow": "pay", "can_emit_to": ["b"]}]}, "a may not lead to 'c'; allowed are b"),
        ({"capabilities": [{"kind": "tool", "max_fanout": 1}]}, "a leads to 2 steps at once, and at most 1 are allowed"),
    ],
)
def test_where_it_may_not_go_it_does_not_go(world: World, done: list[int], policy: Any, why: str) -> None:
    run = world.start(paying(done, policy), cents=5)
    with pytest.raises(ExecutionFailed, match=why):
        run.result()
    assert done == [5]


@pytest.mark.parametrize("always_suspend", [False, True])
@pytest.mark.parametrize("approves", [True, False])
def test_a_person_is_asked_before_and_with_what_it_is_about(done: list[int], always_suspend: bool, approves: bool) -> None:
    policy = {"rules": [{"on": "tool", "when": "input.cents > 3", "ask": "Refund so much?"}]}
    with World(always_suspend=always_suspend) as world:
        run = world.start(paying(done, policy), cents=5)
        world.settle()
        (asked,) = run.children()
        request = asked.query("approval")["request"]
        assert request["title"] == "Refund so much?" and request["details"]["input"] == {"cents": 5} and done == []
        asked.send("vote", Vote("ada", approves, comment="too late"))
        if approves:
            assert run.result() == {"b": {}, "c": {}} and done == [5]
        else:
            with pytest.raises(ExecutionFailed, match=r"not approved.*too late"):
                run.result()
            assert done == []


def test_what_was_decided_stays_decided_when_the_policy_changes(world: World, done: list[int]) -> None:
    run = world.start(paying(done, {}), cents=5)
    assert run.result() == {"b": {}, "c": {}}
    forbidding = paying(done, {"rules": [{"on": about, "deny": "no more"} for about in ("start", "tool", "transition")]})
    world.restart(forbidding)
    world.check()  # which replays what has been decided
    with pytest.raises(ExecutionFailed, match="no more"):
        world.run(forbidding, cents=5)


def test_a_kind_says_itself_what_its_steps_may_do(world: World) -> None:
    kind = Kind("work", lambda config, input: config, capabilities=Capabilities(can_emit_to=("b",)))
    steps = [{"id": "a", "task": {"type": "work", "config": 7}, "next": "c"}, {"id": "c", "set": {}}]
    run = world.start(Definition.of({"perdure": 1, "name": "it", "order": "ports", "steps": steps}, kinds={"work": kind}))
    with pytest.raises(ExecutionFailed, match="a may not lead to 'c'; allowed are b"):
        run.result()


@pytest.mark.parametrize(
    ("policy", "why"),
    [
        ({"rules": [{"on": "tool", "when": "tool == 'give_back'", "deny": "not by itself"}]}, "a may not use give_back: not by itself"),
        ({"capabilities": [{"step": "a", "allowed_tools": ["refund"]}]}, "a tried to use 'give_back', which is unauthorized"),
        ({"rules": [{"on": "tool", "when": "tool == 'give_back'", "ask": "Give it back?"}]}, "its use needs an approval"),
    ],
)
def test_a_policy_holds_for_what_undoes_a_step_and_nothing_is_left_undone_unseen(world: World, done: list[int], policy: Any, why: str) -> None:
    def give_back(cents: int) -> None:
        done.append(-cents)

    first = {"id": "a", "tool": "refund", "with": {"cents": 5}, "undo": {"tool": "give_back", "with": {"cents": "@self"}}}
    document = {"perdure": 1, "name": "pay", "order": "listed", "steps": [first, {"id": "b", "fail": "no"}]}
    run = world.start(Definition.of(document, tools={"refund": lambda cents: cents, "give_back": give_back}, policy=policy))
    world.settle()
    assert run.status == "needs_attention" and done == [] and why in world.trace()


@pytest.mark.parametrize("denied", [True, False])
@pytest.mark.parametrize("always_suspend", [False, True])
def test_a_policy_holds_for_who_is_told_of_a_failure(done: list[int], denied: bool, always_suspend: bool) -> None:
    document = {"perdure": 1, "name": "pay", "on_failure": {"call": "tell"}, "steps": [{"id": "b", "fail": "no"}]}
    policy = {"rules": [{"on": "tool", "when": "tool == 'tell'", "deny": "nobody is told"}]} if denied else {}
    with World(always_suspend=always_suspend) as world:
        run = world.start(Definition.of(document, tools={"tell": lambda **given: done.append(1)}, policy=policy))
        with pytest.raises(ExecutionFailed, match="no"):
            run.result()
        assert done == ([] if denied else [1]) and ("nobody is told" in world.trace()) == denied
