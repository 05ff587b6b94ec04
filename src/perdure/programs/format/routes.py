"""What stands behind `next`, read: by which port or rule a step is left, where to, and how often."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from perdure.programs.format.finding import joined


class Target(NamedTuple):
    """A step that is named as the next one, and where it is."""

    id: str
    pointer: str


class Route(NamedTuple):
    """One way on: by a port, or by a rule if `port` is empty. `max` bounds it (0: nothing does), `endless` says that nothing is meant to."""

    port: str
    targets: tuple[Target, ...]
    pointer: str
    when: Any = None
    max: int = 0
    endless: bool = False
    on_max: tuple[Target, ...] = ()


class Routes(NamedTuple):
    """All ways on from one step. `ports`: they stand in a port map, so that a port without any is worth a word."""

    routes: tuple[Route, ...] = ()
    choose: tuple[Target, ...] = ()
    default: tuple[Target, ...] = ()
    ports: bool = False
    ended: tuple[str, ...] = ()


def routes(following: Any, pointer: str) -> Routes:
    """What `next` says, in any of its forms: a step, a list of steps, rules, a port map, or a choice."""
    match following:
        case None:
            return Routes()
        case str():
            return Routes((Route("success", (Target(following, pointer),), pointer),))
        case list() if all(isinstance(one, str) for one in following):
            return Routes((Route("success", tuple(_targets(following, pointer)), pointer),))
        case list():
            return Routes(tuple(_rule(one, joined(pointer, number)) for number, one in enumerate(following)))
        case Mapping() if "choose" in following:
            chosen = tuple(_targets(following["choose"], joined(pointer, "choose")))
            return Routes(choose=chosen, default=tuple(_targets(following.get("default"), joined(pointer, "default"))))
        case Mapping():
            return _port_map(following, pointer)
        case _:
            return Routes()


def _port_map(following: Mapping[Any, Any], pointer: str) -> Routes:
    """The routes of a port map. Behind ``success`` may stand rules or a choice."""
    found: list[Route] = []
    ended: list[str] = []
    choose: tuple[Target, ...] = ()
    default: tuple[Target, ...] = ()
    for key, value in following.items():
        name = str(key).lower() if isinstance(key, bool) else str(key)
        here = joined(pointer, name)
        if value is None or value == []:
            ended.append(name)
        elif name == "success" and (_is_rules(value) or _is_choice(value)):
            inner = routes(value, here)
            found.extend(inner.routes)
            choose, default = inner.choose, inner.default
        elif isinstance(value, Mapping):
            found.append(_rule(value, here)._replace(port=name, when=None))
        else:
            found.append(Route(name, tuple(_targets(value, here)), here))
    return Routes(tuple(found), choose, default, True, tuple(ended))


def _is_rules(value: Any) -> bool:
    return isinstance(value, list) and any(isinstance(one, Mapping) for one in value)


def _is_choice(value: Any) -> bool:
    return isinstance(value, Mapping) and "choose" in value


def _rule(rule: Any, pointer: str) -> Route:
    if not isinstance(rule, Mapping):
        return Route("", tuple(_targets(rule, pointer)), pointer)
    turns = rule.get("max")
    return Route(
        "",
        tuple(_targets(rule.get("to"), joined(pointer, "to"))),
        pointer,
        rule.get("when"),
        int(turns) if isinstance(turns, int | float) else 0,
        rule.get("endless") is True,
        tuple(_targets(rule["on_max"], joined(pointer, "on_max"))) if "on_max" in rule else (),
    )


def _targets(value: Any, pointer: str) -> Iterator[Target]:
    if isinstance(value, str):
        yield Target(value, pointer)
    elif isinstance(value, list):
        yield from (Target(str(one), joined(pointer, number)) for number, one in enumerate(value))
