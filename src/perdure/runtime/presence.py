"""Presence: what a process that holds executions or work says about itself, for people to read. No rule rests on it but their being told.

It travels as the `about` of a holder's lease, as JSON.
"""

import os
import platform
import time
from collections.abc import Iterable

import msgspec

from perdure.core.paths import Key
from perdure.core.program import Toolbox


class Presence(msgspec.Struct, frozen=True):
    """Who a holder is: its kind (engine, worker), where it runs, which programs it advances and with which capabilities, and which queues it serves.

    With a `root`, it advances only that execution and its descendants, as the engine of a script does.
    """

    kind: str
    host: str
    pid: int
    programs: list[str]
    queues: list[str]
    started_at_s: float
    root: Key | None = None
    toolboxes: tuple[Toolbox, ...] = ()


def here(kind: str, programs: Iterable[str] = (), queues: Iterable[str] = (), root: Key | None = None, toolboxes: tuple[Toolbox, ...] = ()) -> Presence:
    """The presence of something in this process."""
    return Presence(kind, platform.node(), os.getpid(), sorted(programs), sorted(queues), round(time.time(), 3), root, toolboxes)


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Presence)


def encode(presence: Presence) -> bytes:
    """The bytes of a lease's `about`."""
    return _encoder.encode(presence)


def decode(about: bytes) -> Presence | None:
    """Read what `encode` wrote; None of what is something else, such as nothing at all."""
    try:
        return _decoder.decode(about)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
