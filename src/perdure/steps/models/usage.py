"""Checks what a provider says that an answer took, and estimates what it does not say, or says wrongly: budgets are counted in it."""

from __future__ import annotations

import math
from typing import Any

import msgspec

from perdure.steps.models.messages import Answer, Request, Usage

BYTES_PER_TOKEN = 4
"""By which tokens are estimated from the bytes of the JSON that a request or an answer is: a little more than providers count in plain English."""

TOKENS_MAX = 10**12
"""More tokens than this one answer can't have taken."""


def checked(usage: Usage, answer: Answer, request: Request) -> Usage:
    """The usage of an answer to a request, in which each number is one that can be true.

    Tokens that are absent, zero, negative or no numbers are estimated from what was sent and answered, and those of the cache are no more than all. A cost
    that is negative or no number is not known.
    """
    sent = _count(usage.input_tokens) or _estimated(request)
    answered = _count(usage.output_tokens) or _estimated((answer.text, answer.data, answer.calls))
    read = min(_count(usage.cache_read_tokens), sent)
    written = min(_count(usage.cache_write_tokens), sent - read)
    is_estimated = (sent, answered) != (usage.input_tokens, usage.output_tokens) or usage.is_estimated is True
    return Usage(sent, answered, read, written, _cost(usage.cost_usd), is_estimated)


def _count(value: Any) -> int:
    """A number of tokens; 0, if it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0
    return int(value) if 0 < value <= TOKENS_MAX else 0  # NaN is not above 0


def _cost(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value <= TOKENS_MAX and math.isfinite(value) else None


def _estimated(said: Any) -> int:
    """How many tokens something has, at least one."""
    return max(1, -(-len(msgspec.json.encode(said, enc_hook=repr)) // BYTES_PER_TOKEN))
