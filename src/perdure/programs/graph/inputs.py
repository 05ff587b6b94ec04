"""Inputs: what a definition takes, and whether it is given that."""

from collections.abc import Iterator, Mapping
from typing import Any

from perdure.programs.graph.ir import IR
from perdure.programs.graph.names import unfit


def completed(ir: IR, given: Mapping[str, Any]) -> dict[str, Any]:
    """What was given, and the defaults of what was not."""
    defaults = {name: about["default"] for name, about in ir.input.items() if isinstance(about, dict) and "default" in about}
    return {**defaults, **given}


def wrong(ir: IR, given: Mapping[str, Any]) -> Iterator[str]:
    """Why a completed input is not what a definition takes; nothing, if it is."""
    missing = [name for name in ir.required if name not in given]
    if missing:
        yield f"the input lacks {', '.join(missing)}; {ir.name} takes {', '.join(ir.input)}"
    for name, about in ir.input.items():
        if name in given and isinstance(about, dict) and (why := unfit(about, given[name])):
            yield f"input {name}: {why}"
