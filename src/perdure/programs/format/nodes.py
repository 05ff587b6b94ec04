"""One step as a node of the IR: its verb and its modifiers, with what is constant worked out."""

from collections.abc import Mapping
from typing import Any, Literal

from perdure.core.errors import BadValue
from perdure.programs.code.durations import seconds
from perdure.programs.format.draft import Draft
from perdure.programs.format.finding import joined
from perdure.programs.format.outline import ListKind, Site
from perdure.programs.format.shapes import is_template
from perdure.programs.graph.ir import Each, Join, Node, Repeat, Retry, Undo

BODIES: tuple[ListKind, ...] = ("then", "else", "do", "parallel", "race")


def node(draft: Draft, site: Site, region: int) -> Node:
    """The node that a step becomes, standing in `region`. The lists of steps are the regions of the same numbers."""
    step, inner = site.step, draft.outline.inner.get(site.number, {})
    return Node(
        id=site.id,
        kind=site.verb,
        region=region,
        config=_config(site),
        input=step.get("with"),
        name=str(step.get("name") or ""),
        join=_join(step.get("join")),
        when=step.get("when"),
        each=_each(draft, site),
        repeat=_repeat(draft, site),
        retry=retry(draft, step.get("retry"), joined(site.pointer, "retry")),
        timeout_s=constant_s(draft, step.get("timeout"), joined(site.pointer, "timeout")),
        undo=_undo(draft, site),
        on_error=inner.get("on_error", "go_on" if step.get("on_error") == "go_on" else "fail"),
        idempotent=step.get("idempotent"),
        schema=step.get("schema"),
        bodies=tuple(inner[kind] for kind in BODIES if kind in inner),
        rules=draft.rules.get(site.number, ()),
        choose=draft.choose.get(site.number, ()),
        default=draft.default.get(site.number, ()),
        env=step.get("env"),
        transform=step.get("transform"),
        pointer=site.pointer,
    )


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
            return {"call": value, **more} if more else value
    return value


def _join(join: Any) -> Join:
    return join if join in ("any", "each") or (isinstance(join, int) and not isinstance(join, bool)) else "all"


def _each(draft: Draft, site: Site) -> Each | None:
    each, pointer = site.step.get("each"), joined(site.pointer, "each")
    if each is None:
        return None
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


def _repeat(draft: Draft, site: Site) -> Repeat | None:
    repeat, pointer = site.step.get("repeat"), joined(site.pointer, "repeat")
    if not isinstance(repeat, Mapping):
        return None
    on_max: Literal["fail", "go_on"] = "fail" if repeat.get("on_max") == "fail" else "go_on"
    if "on_max" not in repeat and site.number not in draft.left_by_max:
        on_max = "fail"
    return Repeat(
        again=repeat.get("while", repeat.get("until")),
        until="until" in repeat,
        max=_whole(draft, repeat, "max", pointer),
        delay=_delay(draft, repeat.get("delay"), joined(pointer, "delay")),
        on_max=on_max,
        keep=_whole(draft, repeat, "keep", pointer),
        state=repeat.get("state"),
    )


def _undo(draft: Draft, site: Site) -> Undo | None:
    undo, pointer = site.step.get("undo"), joined(site.pointer, "undo")
    match undo:
        case str():
            return Undo(undo, "@self")
        case Mapping():
            timeout_s = constant_s(draft, undo.get("timeout"), joined(pointer, "timeout"))
            return Undo(str(undo.get("tool", "")), undo.get("with", "@self"), timeout_s, retry(draft, undo.get("retry"), joined(pointer, "retry")))
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
            return Retry(
                max=policy.get("max"),
                wait_s=constant_s(draft, policy.get("wait"), joined(pointer, "wait")),
                factor=None if policy.get("factor") is None else float(policy["factor"]),
                max_wait_s=constant_s(draft, policy.get("max_wait"), joined(pointer, "max_wait")),
                only=_names(policy.get("only")),
                fatal=_names(policy.get("fatal")),
            )
    return None


def constant_s(draft: Draft, duration: Any, pointer: str) -> float | None:
    """A duration that is known before anything runs, in seconds."""
    if duration is None:
        return None
    if is_template(duration):
        draft.error("not_constant", pointer, f"{duration!r} is known only while it runs; write seconds, or text such as '30s'")
        return None
    try:
        return seconds(duration)
    except BadValue as problem:
        draft.error("bad_duration", pointer, str(problem))
        return None


def _delay(draft: Draft, delay: Any, pointer: str) -> Any:
    return delay if is_template(delay) else constant_s(draft, delay, pointer)


def _whole(draft: Draft, fields: Mapping[str, Any], field: str, pointer: str) -> int:
    value = fields.get(field, 0)
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    draft.error("not_constant", joined(pointer, field), f"{value!r} is not a whole number from 0, which {field} has to be")
    return 0


def _names(value: Any) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(map(str, value or ()))
