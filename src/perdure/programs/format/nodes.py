"""One step as a node of the IR: its verb and its modifiers, with what is constant worked out."""

from collections.abc import Callable, Mapping
from typing import Any, cast

import msgspec

from perdure.core.errors import BadValue
from perdure.programs.code.durations import seconds
from perdure.programs.format.draft import Draft
from perdure.programs.format.finding import joined
from perdure.programs.format.outline import ListKind, Site
from perdure.programs.format.shapes import is_computed
from perdure.programs.graph.ir import Each, Join, Node, Repeat, Retry, Undo

BODIES: tuple[ListKind, ...] = ("then", "else", "do", "parallel", "race")


PLAIN = {
    "with": "input",
    "when": "when",
    "idempotent": "idempotent",
    "schema": "schema",
    "env": "env",
    "transform": "transform",
    "name": "name",
    "commit": "commit",
    "on_rejected": "on_rejected",
}
"""The modifiers that a node has as they were written."""


def node(draft: Draft, site: Site, region: int) -> Node:
    """The node that a step becomes, standing in `region`. The lists of steps are the regions of the same numbers."""
    step, number = site.step, site.number
    fields: dict[str, Any] = {name: step[field] for field, name in PLAIN.items() if field in step}
    for field, make in MADE.items():
        if field in step:
            fields[f"{field}_s" if field in ("timeout", "grace") else field] = make(draft, step[field], joined(site.pointer, field))
    if inner := draft.outline.inner.get(number):
        fields["bodies"] = tuple(inner[kind] for kind in BODIES if kind in inner)
    if "on_error" in step:
        fields["on_error"] = inner["on_error"] if inner and "on_error" in inner else "go_on" if step["on_error"] == "go_on" else "fail"
    if "repeat" in fields and number in draft.left_by_max and "on_max" not in step["repeat"]:
        fields["repeat"] = msgspec.structs.replace(fields["repeat"], on_max="go_on")
    if routes := draft.rules.get(number):
        fields["rules"] = routes
    if chosen := draft.choose.get(number):
        fields |= {"choose": chosen, "default": draft.default[number]}
    if (found := draft.port_maps.get(number)) is not None and site.verb == "task":
        fields["ended"] = (*found.ended, *(route.port for route in found.routes if route.port and not route.targets))
    return Node(site.id, site.verb, region, _config(site), pointer=site.pointer, **fields)


def _config(site: Site) -> Any:
    """What stands behind the verb: of blocks what it says besides the steps; of a call that says more than whom, all of it as a mapping."""
    value, step = site.value, site.step
    match site.verb:
        case "do":
            return None
        case "parallel" | "race":
            return {key: one for key, one in value.items() if key != "steps"} or None if isinstance(value, Mapping) else None
        case "call":
            more = {key: step[key] for key in ("wait", "undo") if isinstance(step.get(key), bool)}
            return {"target": value, **more} if more else value
    return value


def _join(draft: Draft, join: Any, pointer: str) -> Join:
    if join in ("all", "any", "each") or (isinstance(join, int) and not isinstance(join, bool) and join > 0):
        return cast(Join, join)
    draft.error("wrong_type", pointer, f"expected all, any, each or a whole number from 1, found {join!r}")
    return "all"


def _each(draft: Draft, each: Any, pointer: str) -> Each:
    if not isinstance(each, Mapping):
        return Each(each)
    on_error = each.get("on_error", "fail")
    return Each(
        items=each.get("in"),
        name=str(each.get("as", "item")),
        index=str(each.get("index", "index")),
        concurrency=_whole(draft, each, "concurrency", pointer),
        batch=_whole(draft, each, "batch", pointer),
        max=_whole(draft, each, "max", pointer),
        on_error="null" if on_error is None else on_error,
        enough=_whole(draft, each, "enough", pointer),
    )


def _repeat(draft: Draft, repeat: Mapping[str, Any], pointer: str) -> Repeat:
    return Repeat(
        again=repeat.get("while", repeat.get("until")),
        until="until" in repeat,
        max=_whole(draft, repeat, "max", pointer),
        delay=_delay(draft, repeat.get("delay"), joined(pointer, "delay")),
        on_max="fail" if repeat.get("on_max", "fail") == "fail" else "go_on",
        keep=_whole(draft, repeat, "keep", pointer),
        state=repeat.get("state"),
        undo_keep=_whole(draft, repeat.get("undo") or {}, "keep", joined(pointer, "undo")),
    )


def _undo(draft: Draft, undo: Any, pointer: str) -> Undo | None:
    match undo:
        case str():
            return Undo(undo, "@self")
        case Mapping():
            timeout_s = constant_s(draft, undo.get("timeout"), joined(pointer, "timeout"))
            again = retry(draft, undo.get("retry"), joined(pointer, "retry"))
            return Undo(str(undo.get("tool", "")), undo.get("with", "@self"), timeout_s, again, bool(undo.get("in_doubt")), undo.get("on_error", ""))
    return None


def retry(draft: Draft, policy: Any, pointer: str) -> Retry | None:
    """How often and when to try again; a number alone is the tries, and `false` is one."""
    match policy:
        case None | True:
            return None
        case False:
            return Retry(max=1)
        case int():
            return Retry(max=policy)
        case Mapping():
            wait_s = constant_s(draft, policy.get("wait"), joined(pointer, "wait"))
            max_wait_s = constant_s(draft, policy.get("max_wait"), joined(pointer, "max_wait"))
            if wait_s is not None and max_wait_s is not None and max_wait_s < wait_s:
                what = f"{max_wait_s:g} s is shorter than the first wait, {wait_s:g} s; raise it, or leave it out"
                draft.error("bad_value", joined(pointer, "max_wait"), what)
            return Retry(
                max=policy.get("max"),
                wait_s=wait_s,
                factor=None if policy.get("factor") is None else float(policy["factor"]),
                max_wait_s=max_wait_s,
                only=_names(policy.get("only")),
                fatal=_names(policy.get("fatal")),
            )
    return None


def constant_s(draft: Draft, duration: Any, pointer: str) -> float | None:
    """A duration that is known before anything runs, in seconds."""
    if duration is None:
        return None
    if is_computed(duration):
        draft.error("not_constant", pointer, f"{duration!r} is known only while it runs; write seconds, or text such as '30s'")
        return None
    try:
        return seconds(duration)
    except BadValue as problem:
        draft.error("bad_duration", pointer, str(problem))
        return None


def _delay(draft: Draft, delay: Any, pointer: str) -> Any:
    return delay if is_computed(delay) else constant_s(draft, delay, pointer)


def _whole(draft: Draft, fields: Mapping[str, Any], field: str, pointer: str) -> int:
    value = fields.get(field, 0)
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    draft.error("not_constant", joined(pointer, field), f"{value!r} is not a whole number from 0, which {field} has to be")
    return 0


def _names(value: Any) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(map(str, value or ()))


MADE: dict[str, Callable[[Draft, Any, str], Any]] = {
    "join": _join,
    "each": _each,
    "repeat": _repeat,
    "retry": retry,
    "timeout": constant_s,
    "grace": constant_s,
    "undo": _undo,
}
"""The modifiers of which something is made."""
