"""The mark of a store that is being moved: it makes the store refuse changes, by every process, old ones included, and says where to go instead.

The tables themselves refuse: by triggers that exist only while there is a mark. So an engine or a client that opened the store long ago, a transaction of a
user, and a process with an older Perdure learn of the mark with their next change, in the transaction of that change; and nothing is paid without a mark.

Everything can be read as before. A change feed can be read and trimmed, and what it restores is put in place: `perdure db copy` works on marked stores.
"""

from typing import Literal, Protocol

import msgspec

from perdure.stores.protocol import Store
from perdure.stores.store_parts import PartName

MoveStage = Literal["copy", "draining", "closed", "moved"]
"""``copy``: the store is a copy of another one that is still in use; it refuses all changes but those of secrets. ``draining``: no process can join or renew
its lease, so that engines end; other changes take effect. ``closed``: it refuses all changes, while the last of them are copied. ``moved``: it refuses all
changes, as the other store is in use."""

REFUSALS: dict[MoveStage, str] = {
    "copy": "this database is a copy of {other}, which is still in use; complete the move with perdure db copy FROM TO --switch, or work with {other}",
    "draining": "this database is being moved to {other}, and no process can join it any more; start the process again on {other} when the move is complete",
    "closed": (
        "this database is being moved to {other}; start the process again there when perdure db copy has ended. If that was interrupted, run it again "
        "to complete the move, or with --undo to go on here"
    ),
    "moved": "this database was moved to {other}; name that one with --db or PERDURE_DB",
}


class StoreMove(msgspec.Struct, frozen=True):
    """Why a store refuses changes: the stage of the move, the URL of the other store without its password, and the run of `perdure db copy` that set it."""

    stage: MoveStage
    other: str
    run: str

    @property
    def refusal(self) -> str:
        """The message of the error that a change raises."""
        return REFUSALS[self.stage].format(other=self.other)


class MoveMark(Protocol):
    """The part `MOVE_MARK` of a store. Any method may raise `StoreUnavailable`.

    Guarantee: while there is a mark, each change that the stage refuses raises `StoreMoved` and has no effect, in all processes.
    """

    async def read(self) -> StoreMove | None:
        """Return the mark; None if the store is in use as usual."""
        ...

    async def replace(self, expected: StoreMove | None, move: StoreMove | None) -> bool:
        """Replace the mark durably if it is `expected`; return whether it was.

        When this returns, every change that was in progress has been carried out, or will be refused.
        """
        ...


MOVE_MARK: PartName[MoveMark] = PartName("move mark")


async def is_draining(store: Store) -> bool:
    """Whether a store is about to be moved, so that what is in flight may still end there, and nothing new may begin."""
    mark = store.part(MOVE_MARK)
    move = None if mark is None else await mark.read()
    return move is not None and move.stage == "draining"
