"""Hiding: what a command says without the secrets that it was given, on the engine's side: who keeps the command knows none of them.

A stream is cut where it is kept, and a secret that a cut has parted would not be known again. So what may be left of one beside a cut goes, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from perdure.core.masks import Mask
from perdure.steps.bash.streams import KEPT_CHARACTERS, LAST_CHARACTERS


def streams(said: Mapping[str, Any], mask: Mask, hide: Callable[[str, Mask], str]) -> dict[str, Any]:
    """What a keeper has said, with each stream hidden."""
    return {**said, **{name: hide(said[name], mask) for name in ("stdout", "stderr") if mask}}


def kept(text: str, mask: Mask) -> str:
    """What is kept of a stream, without secrets, nor what is left of one where its middle was left out."""
    if len(text) <= KEPT_CHARACTERS:
        return mask.text(text)
    half = KEPT_CHARACTERS // 2
    head, tail = mask.cut(text[:half], text[-half:])
    return f"{head}{text[half:-half]}{tail}"


def last(text: str, mask: Mask) -> str:
    """The last lines of a stream, without secrets, nor what is left of one at their beginning."""
    if len(text) < LAST_CHARACTERS // 2:  # so short, they begin where a line does
        return mask.text(text)
    return mask.cut("", text)[1]
