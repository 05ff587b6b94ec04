"""The records that hold the live text of steps: what a step has written so far, for readers that do not wait for its outcome.

Live text is in no log. It is cut into chunks, each in a record of its own, so that a long text is not written again and again; only its last chunk changes. The
records expire by themselves, whatever becomes of the process that wrote them.
"""

from hashlib import sha256

import msgspec

from perdure.core.paths import Key
from perdure.core.record_format import decode_record_value, encode_record_value
from perdure.stores.records import RecordKey

LIVE_TEXT = "live_text"
"""The kind of these records."""

CHUNK_CHARACTERS = 4_000
KEPT_S = 1_800.0
"""How long a text is kept after its attempt began; most steps have an outcome long before."""


class LiveTextChunk(msgspec.Struct, frozen=True, omit_defaults=True, array_like=True):
    """A piece of the text of one attempt of the step at `path`, with `offset` characters before it. `take` counts how often the attempt has begun its text
    anew. `is_complete`: the attempt writes no more.
    """

    path: str
    attempt: int
    take: int
    offset: int
    text: str
    is_complete: bool = False


def execution_prefix(execution: Key) -> str:
    """The beginning of the keys of all live text of an execution."""
    name = f"{execution.workflow}\0{execution.id}"
    return f"{sha256(name.encode()).hexdigest()[:32]}/"


def path_prefix(execution: Key, path: str) -> str:
    """The beginning of the keys of the live text of one step of an execution."""
    return f"{execution_prefix(execution)}{sha256(path.encode()).hexdigest()[:16]}/"


def chunk_key(execution: Key, chunk: LiveTextChunk) -> RecordKey:
    """The key of a chunk; in order of keys, the chunks of a path are in the order in which they were written."""
    return RecordKey(execution.tenant, LIVE_TEXT, f"{path_prefix(execution, chunk.path)}{chunk.attempt:08}/{chunk.take:04}/{chunk.offset:010}")


def encode_chunk(chunk: LiveTextChunk) -> bytes:
    """The value of the record of a chunk."""
    return encode_record_value(msgspec.msgpack.encode(chunk))


def decode_chunk(value: bytes) -> LiveTextChunk:
    """The chunk of a record.

    Raises:
        LogVersionUnsupported, LogDamaged: the record is of another version, or damaged.
    """
    return msgspec.msgpack.decode(decode_record_value(value), type=LiveTextChunk)
