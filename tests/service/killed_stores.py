"""A store whose process is killed around one of its writes."""

import asyncio
from collections.abc import Sequence
from random import Random

from perdure.stores.memory import MemoryStore
from perdure.stores.protocol import ChangeAnswer, Commit, Post
from perdure.testing.crash_points import CrashPoint
from perdure.testing.faults import FaultyStore, Gate, Killed


class KilledAtWrite(FaultyStore):
    """A store whose process is killed around one of its commits; `died` is set then. `writes` is how many commits there were."""

    def __init__(self, inner: MemoryStore, crash: CrashPoint, died: asyncio.Event) -> None:
        super().__init__(inner, Random(0), gate=Gate(died.set))
        self._crash, self.writes = crash, 0

    async def commit(self, changes: Sequence[Commit | Post]) -> list[ChangeAnswer]:
        self.writes += 1
        if self._crash.write == self.writes and not self._crash.after:
            self.gate.kill()
        answers = await super().commit(changes)
        if self._crash.write == self.writes:
            self.gate.kill()
            raise Killed
        return answers
