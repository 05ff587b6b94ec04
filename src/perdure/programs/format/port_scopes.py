"""The names that `next` brings into scope where the order is ports: the error behind a port ``error``, and the items of a loop in the steps of its cycle."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from perdure.programs.format.routes import routes

IN_LOOP = ("item", "index", "loop")


def port_scopes(document: Mapping[str, Any]) -> dict[str, frozenset[str]]:
    """For each step of the definition's own list, by its id, the names that it sees because of the steps that lead to it."""
    if document.get("order") != "ports" or not isinstance(steps := document.get("steps"), list):
        return {}
    known = {step["id"]: step for step in steps if isinstance(step, dict) and isinstance(step.get("id"), str)}
    ways = {id: list(_ways(step)) for id, step in known.items()}
    forwards = {id: {target for _, target in found} for id, found in ways.items()}
    backwards: dict[str, set[str]] = {}
    for id, targets in forwards.items():
        for target in targets:
            backwards.setdefault(target, set()).add(id)
    failing = {id for id, found in ways.items() if any(port == "error" for port, _ in found)}
    seen: dict[str, set[str]] = {}
    behind = {target for source in failing for port, target in ways[source] if port in ("error", "max")}
    for id in _reached(behind, forwards):
        seen.setdefault(id, set()).add("error")
    for id, step in known.items():
        if "loop" in step:
            said = step["loop"] if isinstance(step["loop"], dict) else {}
            names = {*IN_LOOP, *(name for name in (said.get("as"), said.get("index")) if isinstance(name, str))}
            for member in _reached(forwards[id], forwards) & _reached({id}, backwards) - {id}:
                seen.setdefault(member, set()).update(names)
    return {id: frozenset(names) for id, names in seen.items()}


def _ways(step: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    """The ports of a step with the steps to which they lead; those of rules and choices have no port."""
    found = routes(step.get("next"), "")
    for route in found.routes:
        yield from ((route.port, target.id) for target in route.targets)
        yield from (("max", target.id) for target in route.on_max)
    yield from (("", target.id) for target in (*found.choose, *found.default))
    repeat = step.get("repeat")
    if isinstance(repeat, dict) and isinstance(on_max := repeat.get("on_max"), str) and on_max not in ("fail", "go_on"):
        yield "max", on_max


def _reached(begin: set[str], ways: Mapping[str, set[str]]) -> set[str]:
    """The steps from which one begins, and all to which ways lead from there."""
    found, waiting = set[str](), list(begin)
    while waiting:
        if (id := waiting.pop()) not in found:
            found.add(id)
            waiting += ways.get(id, ())
    return found
