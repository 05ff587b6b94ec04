"""Rows for tests, pipelines over them, and what is right for each primitive, said in the plainest Python."""

import asyncio
from collections.abc import Callable
from functools import cmp_to_key
from typing import Any

import pytest
from hypothesis import strategies as st

from perdure.definitions.kinds.pipeline import PipelineFailed, run
from perdure.definitions.kinds.pipeline.pipeline_limits import DEFAULT_LIMITS, PipelineLimits

NUMBERS = st.one_of(st.integers(-3, 3), st.integers(-(2**62), 2**62), st.floats(allow_nan=False, allow_infinity=False, width=32))
SCALARS = st.one_of(st.none(), st.booleans(), NUMBERS, st.text(alphabet="abé𝄞 ", max_size=3))
VALUES = st.one_of(SCALARS, st.lists(SCALARS, max_size=2), st.dictionaries(st.sampled_from("xy"), SCALARS, max_size=2))


def rows_of(values: st.SearchStrategy[Any] = VALUES, most: int = 12) -> st.SearchStrategy[list[dict[str, Any]]]:
    """Rows with some of the fields a, b and c."""
    return st.lists(st.dictionaries(st.sampled_from("abc"), values, max_size=3), max_size=most)


def piped(rows: Any, *ops: Any, bounds: PipelineLimits = DEFAULT_LIMITS, **inputs: Any) -> list[dict[str, Any]]:
    """What a pipeline makes of rows."""
    return asyncio.run(run(ops, rows, inputs=inputs, bounds=bounds))


def refused(rows: Any, *ops: Any, bounds: PipelineLimits = DEFAULT_LIMITS, **inputs: Any) -> str:
    """Why a pipeline failed."""
    with pytest.raises(PipelineFailed) as failed:
        _ = piped(rows, *ops, bounds=bounds, **inputs)
    return str(failed.value)


def kind(value: Any) -> int:
    """Where values of a kind come in the order of all."""
    kinds: list[Callable[[Any], bool]] = [
        lambda one: isinstance(one, bool),
        lambda one: isinstance(one, int | float),
        lambda one: isinstance(one, str),
        lambda one: isinstance(one, list),
        lambda one: isinstance(one, dict),
        lambda one: one is None,
    ]
    return next(number for number, fits in enumerate(kinds) if fits(value))


def compared(one: Any, other: Any) -> int:
    """Negative, if one comes before the other; 0, if they are equal."""
    if kind(one) != kind(other):
        return kind(one) - kind(other)
    if isinstance(one, list):
        pairs = [compared(a, b) for a, b in zip(one, other, strict=False)]
        return next((found for found in pairs if found), len(one) - len(other))
    if isinstance(one, dict):
        flat, flat_other = ([part for name in sorted(value) for part in (name, value[name])] for value in (one, other))
        return compared(flat, flat_other)
    return 0 if one is None or one == other else -1 if one < other else 1


def equal(one: Any, other: Any) -> bool:
    """Whether two JSON values are one."""
    return compared(one, other) == 0


def in_order(rows: list[dict[str, Any]], field: str, down: bool = False) -> list[dict[str, Any]]:
    """Rows by a field, nulls last, equal ones as they were: by inserting one after the other."""
    key = cmp_to_key(compared)
    found: list[dict[str, Any]] = []
    for row in (one for one in rows if one.get(field) is not None):
        before = [key(one[field]) >= key(row[field]) if down else key(one[field]) <= key(row[field]) for one in found]
        found.insert(before.index(False) if False in before else len(found), row)
    return found + [one for one in rows if one.get(field) is None]
