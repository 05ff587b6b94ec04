"""Saying: what source text has printed, or raised, as it is passed on: without the secrets that it was given, and not longer than is kept.

A secret that a cut has parted would not be known again. So a sandbox sends more than is kept, by a margin that is longer than any secret; here secrets are
hidden first, and what is cut off is the margin and whatever else is too long.
"""

from __future__ import annotations

from perdure.code.step_environment import StepInfo, step_info
from perdure.core.secret_masks import Mask
from perdure.definitions.kinds.sandbox.job_protocol import ERROR_CHARACTERS_MAX, MARGIN_CHARACTERS, PRINTED_CHARACTERS_MAX

MARK = "\n… more was printed, and is not kept\n"
"""What stands at the end of what was printed, if that was longer."""


def current_step_info() -> StepInfo | None:
    """What is known of the step that runs here; None if none does."""
    try:
        return step_info()
    except LookupError:  # a kind is called as a plain function
        return None


def secret_mask() -> Mask:
    """What hides the secrets of the step that runs here."""
    found = current_step_info()
    return Mask() if found is None else found.mask


def masked_console(text: str, mask: Mask) -> str:
    """What was printed, as it is kept."""
    return _shortened(text, mask, PRINTED_CHARACTERS_MAX, MARK)


def masked_error(text: str, mask: Mask) -> str:
    """What an error says, as it is kept."""
    return _shortened(text, mask, ERROR_CHARACTERS_MAX, "…")


def _shortened(text: str, mask: Mask, characters_max: int, mark: str) -> str:
    hidden = mask.text(text) if mask else text
    if len(text) <= characters_max:
        return hidden
    return hidden[: max(0, min(characters_max, len(hidden) - MARGIN_CHARACTERS))] + mark
