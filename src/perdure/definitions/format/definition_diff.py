"""The differences between two definitions by the ids of their steps: added, removed, renamed, moved, and the fields that changed.

There is no difference exactly if both have the same hash.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterator
from typing import Any, Literal

import msgspec

from perdure.definitions.format.canonical_form import canonical_json
from perdure.definitions.format.definition_edits import with_renamed_steps
from perdure.definitions.format.definition_findings import joined_pointer, pointer_parts
from perdure.definitions.format.step_tree import PlacedStep, nested_lists, placed_steps, verb_of

PAIRS_MAX = 20_000
ALIKE = 0.5


class DefinitionChange(msgspec.Struct, frozen=True, omit_defaults=True):
    """One difference. `id` is of the step, as it is called afterwards (empty: the definition's own fields); `pointer` leads to it afterwards, or, of what was
    removed, before.

    `field` is a pointer within the step or definition. `before` and `after` are absent where there was or is nothing; of a renamed step they are its ids, of
    a moved one where it stood and stands, as ``[holder's id, field of the holder, the id of the step before it]``.
    """

    kind: Literal["added", "removed", "renamed", "moved", "changed"]
    id: str = ""
    pointer: str = ""
    field: str = ""
    before: Any = msgspec.UNSET
    after: Any = msgspec.UNSET


def definition_changes(before: dict[str, Any], after: dict[str, Any]) -> list[DefinitionChange]:
    """Returns the changes that turn the canonical definition `before` into `after`."""
    found = list(_fields(_own_of_document(before), _own_of_document(after), "", "", ""))
    names = _renames(before, after)
    found += [DefinitionChange("renamed", new, _steps(after)[new].pointer, before=old, after=new) for old, new in names.items()]
    if names:
        before = with_renamed_steps(before, names)
    old, new = _steps(before), _steps(after)
    found += [DefinitionChange("removed", id, one.pointer, before=one.step) for id, one in old.items() if id not in new]
    found += [DefinitionChange("added", id, one.pointer, after=one.step) for id, one in new.items() if id not in old]
    moved = _moved(old, new)
    for id in (id for id in new if id in old):
        if id in moved:
            found.append(DefinitionChange("moved", id, new[id].pointer, before=_spot(old, id), after=_spot(new, id)))
        found += _fields(_own(old[id].step), _own(new[id].step), id, new[id].pointer, "")
    return found


def render_changes(changes: list[DefinitionChange]) -> str:
    """The changes as text, one a line; empty if there are none."""
    return "\n".join(map(_line, changes))


def _line(change: DefinitionChange) -> str:
    match change.kind:
        case "added":
            return f"+ {change.id} ({_step_summary(change.after)}) at {change.pointer}"
        case "removed":
            return f"- {change.id} ({_step_summary(change.before)})"
        case "renamed":
            return f"= {change.before} is now called {change.after}"
        case "moved":
            return f"> {change.id} moved from {_where(change.before)} to {_where(change.after)}"
    name = ".".join(pointer_parts(change.field))
    who = f"{change.id}: " if change.id else ""
    if change.before is msgspec.UNSET:
        return f"~ {who}{name}: added {_short(change.after)}"
    if change.after is msgspec.UNSET:
        return f"~ {who}{name}: removed {_short(change.before)}"
    return f"~ {who}{name}: {_short(change.before)} -> {_short(change.after)}"


def _step_summary(step: dict[str, Any]) -> str:
    verb = verb_of(step)
    value = step.get(verb)
    return f"{verb} {value}" if isinstance(value, str) and len(value) <= 60 and "\n" not in value else verb


def _where(spot: list[str]) -> str:
    holder, field, last = spot
    return f"{f'{holder}.{field}' if holder else 'steps'}{f' after {last}' if last else ', first'}"


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else text[:77] + "…"


def _steps(document: dict[str, Any]) -> dict[str, PlacedStep]:
    return {one.id: one for one in placed_steps(document)}


def _own(step: dict[str, Any]) -> dict[str, Any]:
    """A step without its id, the steps in it, and what only editors show."""
    own = {name: value for name, value in step.items() if name not in ("id", "ui", "else")}
    for field, where, _ in nested_lists(step):
        if field in own:
            own[field] = {name: value for name, value in step[field].items() if name != "steps"} if where == "/parallel/steps" else []
    return own


def _own_of_document(document: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in document.items() if name not in ("steps", "ui")}


def _fields(before: Any, after: Any, id: str, pointer: str, field: str) -> Iterator[DefinitionChange]:
    if canonical_json(before) == canonical_json(after):
        return
    if isinstance(before, dict) and isinstance(after, dict):
        for name in dict.fromkeys([*before, *after]):
            inner = joined_pointer(field, name)
            if name not in after:
                yield DefinitionChange("changed", id, pointer + inner, inner, before=before[name])
            elif name not in before:
                yield DefinitionChange("changed", id, pointer + inner, inner, after=after[name])
            else:
                yield from _fields(before[name], after[name], id, pointer, inner)
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, (one, other) in enumerate(zip(before, after, strict=True)):
            yield from _fields(one, other, id, pointer, joined_pointer(field, index))
    else:
        yield DefinitionChange("changed", id, pointer + field, field, before, after)


def _renames(before: dict[str, Any], after: dict[str, Any]) -> dict[str, str]:
    """Pairs removed steps with added ones that are probably the same step renamed: of the same verb and with similar content, the most similar first."""
    old, new = _steps(before), _steps(after)
    gone = [one for id, one in old.items() if id not in new]
    come = [one for id, one in new.items() if id not in old]
    if not gone or len(gone) * len(come) > PAIRS_MAX:
        return {}
    pairs = [
        (likeness, first, second)
        for first, one in enumerate(gone)
        for second, other in enumerate(come)
        if verb_of(one.step) == verb_of(other.step) and (likeness := _likeness(one, other)) >= ALIKE
    ]
    names: dict[str, str] = {}
    for _, first, second in sorted(pairs, key=lambda pair: (-pair[0], abs(pair[1] - pair[2]), pair[1])):
        if gone[first].id not in names and come[second].id not in names.values():
            names[gone[first].id] = come[second].id
    return names


def _likeness(one: PlacedStep, other: PlacedStep) -> float:
    """Returns the similarity of two steps, from 0 to 1. The config of a verb counts, the verb itself does not."""
    first, second = (set(_leaves(_own(step.step), "")) for step in (one, other))
    return len(first & second) / max(len(first | second), 1)


def _leaves(value: Any, pointer: str) -> Iterator[str]:
    if isinstance(value, dict | list) and value:
        for name, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _leaves(item, joined_pointer(pointer, name))
    else:
        yield f"{pointer} {canonical_json(value)}"


def _moved(old: dict[str, PlacedStep], new: dict[str, PlacedStep]) -> set[str]:
    """The fewest steps whose move explains the new order: to another list, or past a neighbour."""
    moved, by_list = set(), dict[tuple[str, str], list[str]]()
    for id, one in new.items():
        if id in old:
            if _holder(one) == _holder(old[id]):
                by_list.setdefault(_holder(one), []).append(id)
            else:
                moved.add(id)
    for ids in by_list.values():
        moved |= set(ids) - _longest_rising(ids, {id: old[id].index for id in ids})
    return moved


def _longest_rising(ids: list[str], rank: dict[str, int]) -> set[str]:
    """Returns the longest subsequence of `ids` with increasing ranks."""
    tails: list[int] = []
    ends: list[str] = []
    previous: dict[str, str] = {}
    for id in ids:
        place = bisect_left(tails, rank[id])
        tails[place:] = [rank[id]] if place == len(tails) else [rank[id], *tails[place + 1 :]]
        ends[place:] = [id, *ends[place + 1 :]]
        if place:
            previous[id] = ends[place - 1]
    kept, last = set[str](), ends[-1] if ends else None
    while last is not None:
        kept.add(last)
        last = previous.get(last)
    return kept


def _holder(one: PlacedStep) -> tuple[str, str]:
    if not one.around:
        return "", "steps"
    holder, field = one.around[-1]
    return holder.id, field


def _spot(steps: dict[str, PlacedStep], id: str) -> list[str]:
    one = steps[id]
    before = next((other.id for other in steps.values() if other.container == one.container and other.index == one.index - 1), "")
    return [*_holder(one), before]
