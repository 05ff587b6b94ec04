"""The operators of conditions in dialects: those of native conditions, and the names that a dialect has for them besides."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from perdure.expr.condition import KEYS
from perdure.expr.operators import AGGREGATES, OF_NOTHING, QUANTIFIERS
from perdure.programs.format.dialects.reading import Fields
from perdure.programs.format.finding import closest

NATIVE = frozenset(KEYS)
PLAIN = frozenset(("matches", *OF_NOTHING))
"""The operators whose right side is taken as it is written, and holds no references."""

OF_MANY = frozenset((*AGGREGATES, *QUANTIFIERS))


def meant(aliases: Mapping[str, str], name: str, value: Any) -> str:
    """The native operator that a name means in a dialect; empty if it means none. ``matches`` takes a JSON Schema, and text as a regular expression."""
    if name == "matches":
        return "matches_re" if isinstance(value, str) else "matches"
    return aliases.get(name, name if name in NATIVE else "")


def refuse_unknown(fields: Fields, known: Collection[str], others: Iterable[str] = ()) -> None:
    """Note as an error each field of a condition that is none of the `known`: left out, it would change what the condition means.

    `others` are fields that are known and not looked at here.
    """
    passed = {*known, *others}
    for name in fields.value:
        if name not in passed:
            near = closest(name, known)
            hint = f"did you mean {near!r}?" if near else f"there are {', '.join(sorted(known))}"
            fields.notes.error("unknown_operator", fields.at(name), f"{name[:40]!r} is no operator of a condition; {hint}", near)
    fields.ignore(*fields.value)
