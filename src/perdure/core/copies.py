"""Copies: what a fork takes over from the execution that it is made of. Data that travels in its start and stays in its log."""

import msgspec

from perdure.core.mailbox import Letter
from perdure.core.ops import Op, Outcome
from perdure.core.paths import Key, Path


class Copy(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, array_like=True):
    """A settled operation: its outcome or, of a receive, the messages that it took."""

    path: Path
    op: Op
    outcome: Outcome | None
    letters: tuple[Letter, ...] = ()


class Fork(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, rename={"origin": "o", "version": "v", "copies": "c", "trimmed": "t"}):
    """The results that are taken over from `origin`, as it was at `version`, and how far its loops had forgotten their turns."""

    origin: Key
    version: int
    copies: tuple[Copy, ...]
    trimmed: tuple[tuple[Path, int], ...] = ()
