"""Policies: what they say is read with care, and of rules the first that holds decides."""

from typing import Any

import pytest

from perdure.core.errors import BadValue
from perdure.definitions.graph.policy import ALLOWED, Policy, PolicyVerdict

FACTS = {"workflow": "pay", "version": "1.0.0", "tenant": "default", "id": "o1", "step": "a", "kind": "tool", "tool": "refund", "input": {"cents": 5}}


def rules(*given: dict[str, Any]) -> Policy:
    return Policy.read({"rules": list(given)})


def test_the_first_rule_that_holds_decides() -> None:
    large = {"on": "tool", "when": "tool == 'refund' && input.cents > 100", "deny": "too much"}
    small = {"on": "tool", "when": {"ref": "@tool", "eq": "refund"}, "ask": "Refund?"}
    policy = rules({"on": "tool", "when": "step == 'trusted'", "allow": True}, large, small)
    assert policy.judge("tool", FACTS) == PolicyVerdict(ask="Refund?")
    assert policy.judge("tool", FACTS | {"input": {"cents": 101}}) == PolicyVerdict(deny="too much")
    assert policy.judge("tool", FACTS | {"step": "trusted", "input": {"cents": 101}}) == ALLOWED
    assert policy.judge("tool", FACTS | {"tool": "charge"}) == ALLOWED


def test_a_rule_that_cannot_be_judged_denies() -> None:
    verdict = rules({"on": "tool", "when": "input.euros > 1", "deny": "no"}).judge("tool", FACTS)
    assert "input.euros > 1" in verdict.deny and "can't be evaluated" in verdict.deny


def test_capabilities_are_of_the_steps_that_their_selector_means() -> None:
    policy = Policy.read({"capabilities": [{"workflow": "pay", "kind": "tool", "max_fanout": 1}, {"step": "b", "requires_approval": True}]})
    assert [one.max_fanout for one in policy.of(FACTS)] == [1]
    assert [one.requires_approval for one in policy.of(FACTS | {"workflow": "other", "step": "b"})] == [True]


@pytest.mark.parametrize(
    ("document", "why"),
    [
        ([], "a mapping with rules"),
        ({"rule": []}, "one of rules, capabilities"),
        ({"rules": {}}, "a list"),
        ({"rules": ["x"]}, r"rules\[0\]"),
        ({"rules": [{"on": "end", "deny": "x"}]}, "one of start, tool, transition"),
        ({"rules": [{"on": "tool"}]}, "one of deny"),
        ({"rules": [{"on": "tool", "deny": ""}]}, "one of deny"),
        ({"rules": [{"on": "tool", "deny": "x", "allow": True}]}, "one of deny"),
        ({"rules": [{"on": "tool", "allow": False}]}, "one of deny"),
        ({"rules": [{"on": "start", "ask": "May it?"}]}, "a rule about tools"),
        ({"rules": [{"on": "tool", "deny": "x", "when": "tool =="}]}, "an expression in CEL"),
        ({"rules": [{"on": "start", "deny": "x", "when": "tool == 'x'"}]}, "there is no tool"),
        ({"rules": [{"on": "tool", "deny": "x", "when": {"python": "def evaluate(a, b): return True"}}]}, "without Python"),
        ({"capabilities": [{"steps": "a"}]}, "one of workflow, step, kind"),
        ({"capabilities": [{"step": "a", "max_fanout": True}]}, "a whole number"),
        ({"capabilities": [{"step": "a", "max_fanout": -1}]}, "a whole number"),
        ({"capabilities": [{"step": "a", "can_emit_to": "b"}]}, "a list of names"),
        ({"capabilities": [{"step": "a", "requires_approval": "yes"}]}, "true or false"),
    ],
)
def test_what_is_no_policy_is_refused_where_it_is_wrong(document: Any, why: str) -> None:
    with pytest.raises(BadValue, match=why):
        Policy.read(document)
