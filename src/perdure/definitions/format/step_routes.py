"""Ports and routes: the ports of each verb besides ``error`` and ``skipped``, and the parsed `next` of a step.

In a definition ordered by ports, `next` also brings names into scope: the error after a port ``error``, and the items of a loop for the steps of its cycle.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from perdure.definitions.format.definition_findings import joined_pointer
from perdure.definitions.format.model import verbs_by_name
from perdure.definitions.graph.ir import AFTER

_BLOCK_VERBS = ("if", "do", "parallel", "race")
PORTS_THAT_LEAD_ON = {"approve": ("approved", "rejected"), "test": ("true", "false"), "if": ("true", "false"), "loop": ("loop", "done")}
"""The ports of verbs with several. If one of them has a target, the others are expected to have one."""


def ports_of_verb(verb: str, step: Mapping[str, Any]) -> tuple[str, ...]:
    """All ports by which the step may be left, by the names that a document has for them. ``success`` covers every success of any verb."""
    own = verbs_by_name()[verb].ports
    if own and "each" in step:
        own = ("success", "done")
    if own and "repeat" in step:
        own = (*own, "done", "max")
    if "timeout" in step and (verb in _BLOCK_VERBS or "each" in step or "repeat" in step):
        own = (*own, "timeout")
    return tuple(dict.fromkeys((*own, *(("success",) if own else ()), "error", "skipped")))


def ports_without_target(verb: str, step: Mapping[str, Any], named: Iterable[str]) -> tuple[str, ...]:
    """Returns the ports without a target that are expected to have one, because other ports of the verb are `named`."""
    given = set(named)
    if "each" in step or given & {"success", "done"}:
        return ()
    return tuple(one for one in PORTS_THAT_LEAD_ON.get(verb, ()) if one not in given)


def edge_port(name: str, verb: str) -> str:
    """Returns the port of an edge that a document calls `name`. A `loop` succeeds after its last iteration, not after each."""
    if name in ("success", "done"):
        return "done" if verb == "loop" else AFTER
    return name


class RouteTarget(NamedTuple):
    """The id of a next step, and the pointer to it."""

    id: str
    pointer: str


class StepRoute(NamedTuple):
    """One route: by a port, or by a rule if `port` is empty. `max` bounds how often it is taken (0: no bound); `endless` declares that there is no bound."""

    port: str
    targets: tuple[RouteTarget, ...]
    pointer: str
    when: Any = None
    max: int = 0
    endless: bool = False
    on_max: tuple[RouteTarget, ...] = ()


class StepRoutes(NamedTuple):
    """The routes of one step. `ports`: they are written as a port map, so that a port without a route is worth a warning."""

    routes: tuple[StepRoute, ...] = ()
    choose: tuple[RouteTarget, ...] = ()
    default: tuple[RouteTarget, ...] = ()
    ports: bool = False
    ended: tuple[str, ...] = ()


def parse_routes(following: Any, pointer: str) -> StepRoutes:
    """Parses `next` in any of its forms: a step, a list of steps, rules, a port map, or a choice."""
    match following:
        case None:
            return StepRoutes()
        case str():
            return StepRoutes((StepRoute("success", (RouteTarget(following, pointer),), pointer),))
        case list() if all(isinstance(one, str) for one in following):
            return StepRoutes((StepRoute("success", tuple(_targets(following, pointer)), pointer),))
        case list():
            return StepRoutes(tuple(_rule(one, joined_pointer(pointer, number)) for number, one in enumerate(following)))
        case Mapping() if "choose" in following:
            chosen = tuple(_targets(following["choose"], joined_pointer(pointer, "choose")))
            return StepRoutes(choose=chosen, default=tuple(_targets(following.get("default"), joined_pointer(pointer, "default"))))
        case Mapping():
            return _port_map(following, pointer)
        case _:
            return StepRoutes()


def _port_map(following: Mapping[Any, Any], pointer: str) -> StepRoutes:
    """The routes of a port map. ``success`` may hold rules or a choice."""
    found: list[StepRoute] = []
    ended: list[str] = []
    choose: tuple[RouteTarget, ...] = ()
    default: tuple[RouteTarget, ...] = ()
    for key, value in following.items():
        name = str(key).lower() if isinstance(key, bool) else str(key)
        here = joined_pointer(pointer, name)
        if value is None or value == []:
            ended.append(name)
        elif name == "success" and (_is_rules(value) or _is_choice(value)):
            inner = parse_routes(value, here)
            found.extend(inner.routes)
            choose, default = inner.choose, inner.default
        elif isinstance(value, Mapping):
            found.append(_rule(value, here)._replace(port=name, when=None))
        else:
            found.append(StepRoute(name, tuple(_targets(value, here)), here))
    return StepRoutes(tuple(found), choose, default, True, tuple(ended))


def _is_rules(value: Any) -> bool:
    return isinstance(value, list) and any(isinstance(one, Mapping) for one in value)


def _is_choice(value: Any) -> bool:
    return isinstance(value, Mapping) and "choose" in value


def _rule(rule: Any, pointer: str) -> StepRoute:
    if not isinstance(rule, Mapping):
        return StepRoute("", tuple(_targets(rule, pointer)), pointer)
    turns = rule.get("max")
    return StepRoute(
        "",
        tuple(_targets(rule.get("to"), joined_pointer(pointer, "to"))),
        pointer,
        rule.get("when"),
        int(turns) if isinstance(turns, int | float) else 0,
        rule.get("endless") is True,
        tuple(_targets(rule["on_max"], joined_pointer(pointer, "on_max"))) if "on_max" in rule else (),
    )


def _targets(value: Any, pointer: str) -> Iterator[RouteTarget]:
    if isinstance(value, str):
        yield RouteTarget(value, pointer)
    elif isinstance(value, list):
        yield from (RouteTarget(str(one), joined_pointer(pointer, number)) for number, one in enumerate(value))


LOOP_NAMES = ("item", "index", "loop")


def names_by_step(document: Mapping[str, Any]) -> dict[str, frozenset[str]]:
    """Returns, for each step of the definition's own list, the names that the steps leading to it bring into scope."""
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
            names = {*LOOP_NAMES, *(name for name in (said.get("as"), said.get("index")) if isinstance(name, str))}
            for member in _reached(forwards[id], forwards) & _reached({id}, backwards) - {id}:
                seen.setdefault(member, set()).update(names)
    return {id: frozenset(names) for id, names in seen.items()}


def _ways(step: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    """The ports of a step with the steps to which they lead; those of rules and choices have no port."""
    found = parse_routes(step.get("next"), "")
    for route in found.routes:
        yield from ((route.port, target.id) for target in route.targets)
        yield from (("max", target.id) for target in route.on_max)
    yield from (("", target.id) for target in (*found.choose, *found.default))
    repeat = step.get("repeat")
    if isinstance(repeat, dict) and isinstance(on_max := repeat.get("on_max"), str) and on_max not in ("fail", "go_on"):
        yield "max", on_max


def _reached(begin: set[str], ways: Mapping[str, set[str]]) -> set[str]:
    """Returns the steps in `begin`, and all that are reachable from them."""
    found, waiting = set[str](), list(begin)
    while waiting:
        if (id := waiting.pop()) not in found:
            found.add(id)
            waiting += ways.get(id, ())
    return found
