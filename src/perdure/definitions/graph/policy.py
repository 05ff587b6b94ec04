"""Policies: what an operator allows definitions to do: capabilities of steps, and rules in CEL about starts, tools and transitions.

A policy applies when something is decided, so earlier decisions stay valid when it changes. Of the rules about one thing, the first that holds decides; if
none holds, the thing is allowed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from perdure.core.errors import BadExpression, BadValue, ExpressionFailed
from perdure.definitions.expr import condition
from perdure.definitions.expr.condition import CompiledCondition
from perdure.definitions.graph.step_kind import Capabilities

PolicySubject = Literal["start", "tool", "transition"]

POLICY_FACTS: Mapping[PolicySubject, tuple[str, ...]] = {
    "start": ("workflow", "version", "tenant", "id", "input"),
    "tool": ("workflow", "version", "tenant", "id", "step", "kind", "tool", "input"),
    "transition": ("workflow", "version", "tenant", "id", "step", "kind", "to", "to_kind"),
}
"""The facts that a rule may read, by its subject. `tool` is empty for a step that uses none; `input` has marks in place of secrets."""


class PolicyVerdict(NamedTuple):
    """The verdict of a policy: `deny` is the reason of a refusal, `ask` the question to a person; both empty: it is allowed."""

    deny: str = ""
    ask: str = ""


ALLOWED = PolicyVerdict()


class PolicyRule(NamedTuple):
    """A rule: if `when` (`text` as written) holds, its verdict applies."""

    about: PolicySubject
    text: str
    when: CompiledCondition
    verdict: PolicyVerdict


class StepSelector(NamedTuple):
    """Selects steps by workflow, id and kind; empty is any."""

    workflow: str
    step: str
    kind: str

    def fits(self, facts: Mapping[str, Any]) -> bool:
        """Whether a step matches."""
        return all(not wanted or facts.get(name) == wanted for name, wanted in self._asdict().items())


class Policy:
    """A policy. `rules` are in order; of `capabilities`, all whose selector matches a step apply."""

    def __init__(self, rules: Sequence[PolicyRule] = (), capabilities: Sequence[tuple[StepSelector, Capabilities]] = ()) -> None:
        self._rules: dict[PolicySubject, list[PolicyRule]] = {about: [rule for rule in rules if rule.about == about] for about in POLICY_FACTS}
        self._capabilities = list(capabilities)

    def of(self, facts: Mapping[str, Any]) -> Iterator[Capabilities]:
        """Yields the capabilities that apply to a step."""
        return (one for selector, one in self._capabilities if selector.fits(facts))

    def judge(self, about: PolicySubject, facts: Mapping[str, Any]) -> PolicyVerdict:
        """Returns the verdict of the rules. A rule that can't be evaluated denies.

        `facts` has the names of `POLICY_FACTS`.
        """
        for rule in self._rules[about]:
            try:
                if rule.when.evaluate(_Facts(facts), ()):
                    return rule.verdict
            except ExpressionFailed as error:
                return PolicyVerdict(deny=f"the rule {rule.text} can't be evaluated: {error}. Correct the rule")
        return ALLOWED

    @classmethod
    def read(cls, document: Any) -> Policy:
        """Reads a policy from a document.

        ``{rules: [{on: tool, when: "…", deny: "why"}], capabilities: [{step: route, can_emit_to: [a], max_fanout: 1, allowed_tools: [b],
        requires_approval: true}]}``. A rule has one of ``deny`` (why not), ``ask`` (what a person is asked) and ``allow: true``.

        Raises:
            BadValue: the document is not a policy.
        """
        if not isinstance(document, Mapping):
            raise BadValue("policy", document, "a mapping with rules, capabilities, or both")
        _only(document, ("rules", "capabilities"), "policy")
        rules = [_rule(one, f"policy: rules[{number}]") for number, one in enumerate(_list(document, "rules"))]
        return cls(rules, [_capability(one, f"policy: capabilities[{number}]") for number, one in enumerate(_list(document, "capabilities"))])


NO_POLICY = Policy()


class _Facts:
    """Facts as the scope of an expression."""

    def __init__(self, facts: Mapping[str, Any]) -> None:
        self._facts = facts

    def root(self, name: str) -> Any:
        return self._facts[name]

    def step(self, id: str) -> Any:
        return self._facts[id]

    def envelope(self, id: str) -> Any:
        raise KeyError(id)


def _rule(given: Any, where: str) -> PolicyRule:
    if not isinstance(given, Mapping):
        raise BadValue(where, given, "a mapping such as {on: tool, when: \"tool == 'refund'\", deny: why}")
    _only(given, ("on", "when", "deny", "ask", "allow"), where)
    about: Any = given.get("on")
    said = [name for name in ("deny", "ask", "allow") if name in given]
    if about not in POLICY_FACTS:
        raise BadValue(f"{where}.on", about, f"one of {', '.join(POLICY_FACTS)}")
    if len(said) != 1 or not (given["allow"] is True if said == ["allow"] else isinstance(given[said[0]], str) and given[said[0]].strip()):
        raise BadValue(where, dict(given), "a rule with one of deny: why, ask: what, and allow: true")
    if said == ["ask"] and about != "tool":
        raise BadValue(f"{where}.ask", given["ask"], "a rule about tools; starts and transitions are allowed or denied")
    written = given.get("when", True)
    try:
        when = condition.compile_condition({"expr": written} if isinstance(written, str) else written, "error", "steps")
    except BadExpression as error:
        raise BadValue(f"{where}.when", written, f"a condition, or an expression in CEL: {error}") from error
    unknown = sorted({read.step or read.root for read in when.reads} - set(POLICY_FACTS[about]))
    if unknown:
        raise BadValue(f"{where}.when", written, f"a condition over {', '.join(POLICY_FACTS[about])}; there is no {', '.join(unknown)}")
    if when.python:
        raise BadValue(f"{where}.when", written, "a condition without Python, which a policy can't run")
    return PolicyRule(about, str(written), when, PolicyVerdict(given.get("deny", ""), given.get("ask", "")))


def _capability(given: Any, where: str) -> tuple[StepSelector, Capabilities]:
    if not isinstance(given, Mapping):
        raise BadValue(where, given, "a mapping such as {step: route, max_fanout: 1}")
    names = ("can_emit_to", "max_fanout", "requires_approval", "allowed_tools")
    _only(given, (*StepSelector._fields, *names), where)
    for name in ("can_emit_to", "allowed_tools"):
        if name in given and not (isinstance(given[name], list) and all(isinstance(one, str) for one in given[name])):
            raise BadValue(f"{where}.{name}", given[name], "a list of names")
    most, asks = given.get("max_fanout"), given.get("requires_approval", False)
    if most is not None and (type(most) is not int or most < 0):
        raise BadValue(f"{where}.max_fanout", most, "a whole number from 0")
    if type(asks) is not bool:
        raise BadValue(f"{where}.requires_approval", asks, "true or false")
    to, tools = (tuple(given[name]) if name in given else None for name in ("can_emit_to", "allowed_tools"))
    return StepSelector(*(str(given.get(name, "")) for name in StepSelector._fields)), Capabilities(to, most, asks, tools)


def _list(document: Mapping[str, Any], name: str) -> Sequence[Any]:
    found = document.get(name, [])
    if not isinstance(found, list):
        raise BadValue(f"policy: {name}", found, "a list")
    return found


def _only(given: Mapping[str, Any], known: Sequence[str], where: str) -> None:
    for name in given:
        if name not in known:
            raise BadValue(where, name, f"one of {', '.join(known)}")
