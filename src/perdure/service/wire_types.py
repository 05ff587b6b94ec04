"""Types of arguments and results that travel in another form than they have in Python."""

from typing import Annotated, TypeVar

import msgspec

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

Version = Annotated[int, msgspec.Meta(extra={"version": True})]
"""The version of what an operation returns. Over HTTP it is the `ETag`."""

SecretText = Annotated[str, msgspec.Meta(extra={"secret": True})]
"""A secret that an operation shows once. It is never kept."""

NOTHING: EncodedValue = ENCODED_NONE
"""The encoded value None."""

NO_ARGUMENTS: EncodedInput = msgspec.msgpack.encode(((), {}))
"""The encoded input of a workflow that is given no arguments."""
