"""Types of arguments and results that travel in another form than they have in Python."""

from typing import Annotated, Any, NamedTuple, TypeVar

import msgspec

from perdure.core import values
from perdure.core.values import ENCODED_NONE

T = TypeVar("T")

Nested = Annotated[T, msgspec.Meta(extra={"form": "nested"})]
"""A struct that is one field of a request. Without this, the fields of a struct that must be given are those of the request itself."""

EncodedValue = Annotated[bytes, msgspec.Meta(extra={"form": "value"})]
"""A value of user code, as `perdure.core.values` encodes it. In JSON it is the value itself."""

EncodedInput = Annotated[bytes, msgspec.Meta(extra={"form": "input"})]
"""The encoded arguments of a workflow. In JSON they are an object of arguments by name, or an array of them by position."""

JsonDocument = Annotated[bytes, msgspec.Meta(extra={"form": "document"})]
"""A JSON document as text. In JSON it is the document itself."""

DocumentText = Annotated[bytes, msgspec.Meta(extra={"form": "text"})]
"""A document as somebody is writing it, in UTF-8, which need not be valid. In JSON it is a text; a document itself is taken, too."""

Version = Annotated[int, msgspec.Meta(extra={"version": True})]
"""The version of what an operation returns. Over HTTP it is the `ETag`."""

SecretText = Annotated[str, msgspec.Meta(extra={"secret": True})]
"""A secret that an operation shows once. It is never kept."""


class WorkflowInput(NamedTuple):
    """The arguments of a workflow or a step: those by position, and those by name."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def decoded_input(raw: bytes, what: str) -> WorkflowInput:
    """Decodes the arguments of a workflow or a step.

    Raises:
        Undecodable: the bytes are none.
    """
    args, kwargs = values.decode(raw, tuple[list[Any], dict[str, Any]], what)
    return WorkflowInput(tuple(args), kwargs)


NOTHING: EncodedValue = ENCODED_NONE
"""The encoded value None."""

NO_ARGUMENTS: EncodedInput = msgspec.msgpack.encode(((), {}))
"""The encoded input of a workflow that is given no arguments."""
