"""Masks secrets in what source text has printed or raised, and cuts it to the length that is kept.

A secret that a cut has parted could not be recognized. A sandbox therefore sends a margin longer than any secret; here secrets are masked first, and the
margin is cut off afterwards.
"""

from __future__ import annotations

from perdure.code.step_environment import StepInfo, step_info
from perdure.core.secret_masks import Mask
from perdure.definitions.kinds.sandbox.job_protocol import ERROR_CHARACTERS_MAX, MARGIN_CHARACTERS, PRINTED_CHARACTERS_MAX

MARK = "\n… more was printed, and is not kept\n"
"""The end of printed output that was cut."""


def current_step_info() -> StepInfo | None:
    """The info of the current step; None outside of a step."""
    try:
        return step_info()
    except LookupError:  # a kind is called as a plain function
        return None


def secret_mask() -> Mask:
    """The mask for the secrets of the current step."""
    found = current_step_info()
    return Mask() if found is None else found.mask


def masked_console(text: str, mask: Mask) -> str:
    """Console output, masked and cut."""
    return _shortened(text, mask, PRINTED_CHARACTERS_MAX, MARK)


def masked_error(text: str, mask: Mask) -> str:
    """The text of an error, masked and cut."""
    return _shortened(text, mask, ERROR_CHARACTERS_MAX, "…")


def _shortened(text: str, mask: Mask, characters_max: int, mark: str) -> str:
    hidden = mask.text(text) if mask else text
    if len(text) <= characters_max:
        return hidden
    return hidden[: max(0, min(characters_max, len(hidden) - MARGIN_CHARACTERS))] + mark
