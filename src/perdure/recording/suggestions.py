"""What the search for references suggests, one by one, for a person or a model to accept."""

from typing import Any, Literal

import msgspec

from perdure.definitions.expr.references import ValuePath
from perdure.definitions.format.definition_findings import joined_pointer
from perdure.recording.match_confidence import FOUND_CONFIDENCE

Spelling = Literal["same", "number", "amount", "time", "case"]
"""How a value is written in the argument, compared with where it came from: as there, another spelling of a number or a time, cents for an amount of money
or the other way round, or with other capitals or white space at its ends."""


class OtherPlace(msgspec.Struct, frozen=True, kw_only=True):
    """Another place with the same value, with its own confidence."""

    reference: str
    confidence: float
    source: str
    place: ValuePath
    expression: str = ""
    is_same: bool = True


class FoundReference(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A reference that an argument may have been.

    It is at `path` in the arguments of the step `call`; with a `span`, it is that part of the text there. `reference` is how a definition writes it, and
    `source` and `place` are where it leads: a step, or ``input``. Where a conversion is needed, `expression` is the CEL with it. `is_same` says whether
    accepting it gives the value that the argument had; otherwise it gives another spelling of it. `is_text` says that there is a text where it leads.
    `is_proposed` says that the input does not have the parameter yet: its value is `value`. `alternatives` are other places with the value, `others` counts
    those that are not listed.
    """

    call: str
    path: ValuePath
    span: tuple[int, int] | None = None
    reference: str
    source: str
    place: ValuePath
    value: Any = None
    expression: str = ""
    spelling: Spelling = "same"
    is_text: bool = False
    is_same: bool = True
    is_proposed: bool = False
    confidence: float
    alternatives: tuple[OtherPlace, ...] = ()
    others: int = 0
    why: str = ""

    @property
    def key(self) -> str:
        """The name of the suggestion in its recording: the step, the place as a JSON pointer, and the part of the text."""
        place = joined_pointer(self.call, *self.path)
        return place if self.span is None else f"{place}#{self.span[0]}-{self.span[1]}"

    @property
    def is_found(self) -> bool:
        """Whether it is sure enough to count as found."""
        return self.confidence >= FOUND_CONFIDENCE


class FoundLoop(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Calls of one tool that are one step with an `each`: `calls` are their steps, in order, and `step` is what they become, with what was found besides.

    `items` is the reference to the list, whose `place` is in the result of `source`, and `count` the number of its elements. `indexes` are those of the
    elements that the calls took, in the same order; `uses` has what the first one took of its element. With `is_over_loop`, the list is the result of another
    loop, whose first call is `source`. `is_whole` says that the calls took all elements, in order: otherwise the step takes more than they did.
    """

    calls: tuple[str, ...]
    items: str
    source: str
    place: ValuePath
    indexes: tuple[int, ...]
    count: int
    uses: tuple[FoundReference, ...]
    step: dict[str, Any]
    is_over_loop: bool = False
    is_whole: bool = False
    is_deletion: bool = False
    confidence: float
    why: str = ""

    @property
    def key(self) -> str:
        """The name of the suggestion in its recording: its first step."""
        return f"{self.calls[0]}*"

    @property
    def is_found(self) -> bool:
        """Whether it is sure enough to count as found."""
        return self.confidence >= FOUND_CONFIDENCE


class Suggestions(msgspec.Struct, frozen=True, kw_only=True):
    """What was found in a recording: `references`, found and weak ones, in the order of the arguments, and `loops` in that of their first calls.

    `is_partial` says that the recording was larger than what is read.
    """

    references: tuple[FoundReference, ...]
    loops: tuple[FoundLoop, ...]
    is_partial: bool = False
