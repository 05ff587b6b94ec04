"""The definitions that an execution may call, pinned when it starts, so that what is published later changes nothing in it."""

import msgspec

from perdure.core.values import Blob


class PinnedCall(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """What the text `target` of a call names in an execution: a `definition`, whose children have `workflow` in their keys.

    `version` is the number under which it was found. A child fails `deadline_s` after its start, and its steps in flight may go on for `grace_s`.
    """

    target: str
    workflow: str
    definition: Blob
    version: str = ""
    deadline_s: float | None = None
    grace_s: float | None = None


PinnedCalls = tuple[PinnedCall, ...]


class Hosting(msgspec.Struct, frozen=True, gc=False):
    """How an execution of a definition is run that its engine need not know: engines claim it by the name `program`, and it may call `calls`."""

    program: str
    calls: PinnedCalls = ()
