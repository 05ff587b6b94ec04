"""Checks and completes the input of a definition."""

from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from perdure.definitions.expr.plain_values import shortened
from perdure.definitions.format.dialect_rules import RULES
from perdure.definitions.graph.ir import IR
from perdure.definitions.graph.node_scope import schema_problem


def with_defaults(ir: IR, given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the given input, completed by defaults."""
    defaults = {name: about["default"] for name, about in ir.input.items() if isinstance(about, dict) and "default" in about}
    return {**defaults, **given}


def completed_input_problems(ir: IR, given: Mapping[str, Any]) -> Iterator[str]:
    """Yields the problems of a completed input."""
    missing = [name for name in ir.required if name not in given]
    if missing:
        yield f"the input lacks {', '.join(missing)}; {ir.name} takes {', '.join(ir.input)}"
    for name, about in ir.input.items():
        if name not in given or not isinstance(about, dict) or _is_left_out(about, given[name]):
            continue
        if why := schema_problem(about, given[name]):
            yield f"input {name}: {why}"


def input_problems(ir: IR, given: Mapping[str, Any]) -> list[str]:
    """Returns the problems of an input: those of `completed_input_problems`, and names that the definition does not declare if it declares inputs."""
    is_checked = bool(ir.input) and RULES[ir.dialect].declared_names_only
    unknown = [_unknown_inputs(one, list(ir.input)) for one in given if is_checked and one not in ir.input]
    return [*unknown, *completed_input_problems(ir, with_defaults(ir, given))]


def _unknown_inputs(given: str, known: Sequence[str]) -> str:
    shown = shortened(given)
    near = get_close_matches(shown, known, 1)
    return f"there is no input {shown!r}{f', did you mean {near[0]!r}?' if near else ''}"


def _is_left_out(about: Mapping[str, Any], value: Any) -> bool:
    """Whether an optional input is null, which counts as not given, whatever its schema says."""
    return value is None and "default" in about and about["default"] is None
