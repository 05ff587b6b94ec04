"""What every measure is given: a directory on the disk, the two sides, the limit, and how much to do."""

import contextlib
import itertools
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from bench._disk import Calm, Disk
from bench._side import ROOT, Side


@dataclass
class Bench:
    """`peer` is the Python that has DBOS, or None where there is none; `rounds` how often each side has its turn, `few` where a turn takes long."""

    directory: Path
    peer: str | None
    quick: bool
    rounds: int
    few: int
    calm: Calm
    _fresh: Iterator[int] = field(default_factory=itertools.count)

    def size(self, full: int, quick: int) -> int:
        """How much to do."""
        return quick if self.quick else full

    def turns(self, times: int) -> Iterator[int]:
        """So many rounds, each begun when the machine is calm."""
        for each in range(times):
            self.calm.wait()
            yield each

    def fewer(self, full: int, quick: int) -> str:
        """What the peer is called where it does less in a quick run."""
        return f"DBOS ({quick:,} of them)" if self.quick and quick != full else "DBOS"

    def place(self) -> Path:
        """A new path for a database."""
        return self.directory / f"{next(self._fresh)}.db"

    def ours(self, place: Path) -> Side:
        """Perdure, in a new process."""
        return Side(sys.executable, "_ours.py", [f"sqlite:///{place}"])

    def theirs(self, place: Path, *options: str) -> Side:
        """DBOS, in a new process."""
        assert self.peer is not None
        return Side(self.peer, "_peer.py", [str(place), *options])

    @contextlib.contextmanager
    def sides(self) -> Iterator[tuple[Side, Side | None, Disk]]:
        """Both, open and warm, and the limit; None for a peer that is not installed.

        Warm: a write-ahead log that still grows costs a commit about twice as much as one that is written over again, because the
        filesystem has to keep its new size. All three are measured after the growth.
        """
        with contextlib.ExitStack() as stack:
            ours = stack.enter_context(self.ours(self.place()))
            ours.ask("open")
            _ = ours.ask("one_by_one", name="count", argument=100, times=10)
            peer = stack.enter_context(self.theirs(self.place())) if self.peer else None
            if peer is not None:
                peer.ask("open")
                _ = peer.ask("one_by_one", name="count", argument=100, times=3)
            yield ours, peer, stack.enter_context(contextlib.closing(Disk(self.place())))


def peer_python() -> str | None:
    """The Python that has DBOS: that of `PERDURE_BENCH_PEER`, else of `.venv-bench`; None if it is not there."""
    named = os.environ.get("PERDURE_BENCH_PEER", str(ROOT / ".venv-bench" / "bin" / "python"))
    return named if Path(named).exists() else None
