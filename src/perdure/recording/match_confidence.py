"""How sure it is that a value in an argument came from a place, as evidence in bits that is added up.

For it: how much the value says by itself, how well the names of both places agree, that other arguments of the call came from the same thing, and that
calls in a row take the elements of one list in turn. Against it: how many values there were that it could equal by chance, another spelling, that it is a
part of a longer word, and that the value was given as an argument before any result had it.
"""

import math
from typing import NamedTuple

from perdure.recording.name_agreement import CONTROLS, ENUMERATED, Agreement

FOUND_CONFIDENCE = 0.7
"""The confidence from which on a reference counts as found. Others are weak suggestions."""

WEAK_CONFIDENCE = 0.2
"""Less than this is not suggested."""

EVEN_BITS = 9.0
"""The evidence at which it is as likely as not."""

BITS_OF_NAMES: dict[Agreement, float] = {"same": 14.0, "related": 8.0, "near": 4.0, "none": 0.0, "other": -4.0}
BITS_OF_FEW = 5.0
"""What names add at most where a field has few values, such as a status."""

BITS_OF_THING = 6.0
BITS_OF_TEXT = 3.0
"""What speaks besides for a part of a text that has another part from the same thing."""

BITS_OF_TURN = 5.0
BITS_OF_USED = 2.0
"""What speaks for an element of a list that other arguments came from."""

BITS_OF_TOOL = 2.0
"""What speaks for a parameter with each further tool that was given the value."""

BITS_OF_INPUT = 7.0
"""What speaks for the input: it is there to be used."""

BITS_OF_UNUSED = 5.0
"""What speaks for a parameter that no other argument can be."""

BITS_OF_KNOWN = 6.0
"""What speaks for the place from which another argument with the same value was found to come."""
BITS_KNOWN = 26.0
"""A value that was an argument before any result had it must say as much as this, if it is to have come from a result that repeats it."""


class Evidence(NamedTuple):
    """What is known of a value and a place that it may have come from.

    `bits` are those of the value, `values_before` counts the values of earlier results. `is_given` says that the value was an argument before.
    """

    bits: float
    agreement: Agreement
    values_before: int
    argument_field: frozenset[str]
    field: frozenset[str]
    is_in_text: bool = False
    is_respelt: bool = False
    is_part_of_word: bool = False
    is_given: bool = False
    is_repeated_by_other: bool = False
    is_other_case: bool = False
    is_amount: bool = False
    is_input: bool = False
    is_repetition: bool = False


def evidence_bits(known: Evidence) -> float:
    """Returns the evidence in bits."""
    of_names = BITS_OF_NAMES[known.agreement]
    if known.field & ENUMERATED:
        of_names = min(of_names, BITS_OF_FEW)
    if known.argument_field & CONTROLS and known.bits < 9 and not (known.is_input and known.agreement != "none"):
        of_names -= 8.0
    found = known.bits + of_names - 0.5 * math.log2(1 + known.values_before)
    if known.is_input:
        found += BITS_OF_INPUT
    if known.is_repetition:
        found -= 30.0
    if known.is_in_text:
        found -= 2.0
    if known.is_respelt:
        found -= 1.0
    if known.is_amount:
        found -= 3.0
    if known.is_other_case:
        found -= 6.0
    if known.is_part_of_word:
        found -= 14.0
    if known.is_given:
        needed = BITS_KNOWN - 8 if known.is_repeated_by_other and known.agreement == "same" else BITS_KNOWN
        found -= max(0.0, needed - known.bits)
    return found


def confidence_of(bits: float) -> float:
    """Returns the confidence that evidence gives, from 0 to 1."""
    return 1 / (1 + math.exp(-(max(-60.0, min(bits, 80.0)) - EVEN_BITS) / 3))
