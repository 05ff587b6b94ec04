"""Programs: pure functions from what the log says to what they want next. What the rules ask of one, and what it may ask for."""

from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal, Protocol

import msgspec

from perdure.core.errors import Diverged
from perdure.core.events import Event
from perdure.core.execution import Execution
from perdure.core.operations import Operation, Outcome
from perdure.core.paths import Path


class OpenCommand(msgspec.Struct, frozen=True, gc=False):
    """Open an operation. It may refer to `blobs`, by hash, which are kept with it."""

    path: Path
    op: Operation
    blobs: tuple[tuple[str, bytes], ...] = ()


class DropCommand(msgspec.Struct, frozen=True, gc=False):
    """Want an open operation no longer, or give back what a settled receive brought. What has `lost` a race has no grace, also if the execution then fails."""

    path: Path
    lost: bool = False


class TrimCommand(msgspec.Struct, frozen=True, gc=False):
    """Forget the turns of a loop before this one. What was done in them is undone all the same, but for turns before `undo_before`."""

    path: Path
    before: int
    undo_before: int = 0


class FinishCommand(msgspec.Struct, frozen=True, gc=False):
    """End the execution. `path` is that of the step because of which it has failed, where the program knows it."""

    status: Literal["completed", "failed", "cancelled"]
    outcome: Outcome
    path: Path = ()


WARNING_LEVEL = 30
"""The level of a warning, as the standard library has it."""


class LogCommand(msgspec.Struct, frozen=True, gc=False):
    """Write a line to the log of the process: silent on replay, never remembered."""

    level: int
    text: str
    fields: tuple[tuple[str, Any], ...] = ()


ProgramCommand = OpenCommand | DropCommand | TrimCommand | FinishCommand | LogCommand


class Program(Protocol):
    """An incremental fold over the events of one execution: warm, it is fed each as it happens; cold, the same ones again."""

    @property
    def awake(self) -> bool:
        """Whether it was fed; the program of an execution that has ended is not, until that is to be undone."""
        ...

    @property
    def keeps_archives(self) -> bool:
        """Whether what compaction replaces is kept."""
        ...

    def feed(self, execution: Execution, event: Event, remembered: deque[Event] | None, values: Mapping[str, bytes]) -> Sequence[ProgramCommand]:
        """Take one given event, already folded into `execution`; return what the program wants because of it.

        On replay `remembered` holds what it asked for at this place, from which it takes as much as it asks for again; live it is None.
        `values` has the payloads of blobs that the event refers to, by hash.

        Raises:
            Diverged: it asked for something else than it remembers.
        """
        ...

    def unfit(self, definition: bytes) -> tuple[str, ...]:
        """Why it can't go on by another definition; empty, if it can."""
        ...

    def refuse(self, diverged: Diverged) -> None:
        """Go no further: whatever it is fed from here on, it raises `diverged`."""
        ...

    def close(self) -> None:
        """Leave memory: nothing that the program still does is recorded."""
        ...


@lru_cache(maxsize=4096)
def program_name(workflow: str, version: int, needs: frozenset[str] = frozenset()) -> str:
    """What heads say, and claims ask for: ``order@2``, or ``order@`` as long as no version is pinned. Never the same for two programs.

    The capabilities that an engine `needs` for it follow in order, each on a line of its own: tools, kinds of steps, definitions that are called.
    """
    return "\n".join((f"{workflow}@{version or ''}", *sorted(needs)))


def program_base(program: str) -> str:
    """A program without the capabilities that it needs."""
    return program.partition("\n")[0]


def program_requirements(program: str) -> frozenset[str]:
    """The capabilities that an engine needs for a program."""
    return frozenset(program.split("\n")[1:])


Toolbox = tuple[frozenset[str], frozenset[str]]
"""Programs, without what they need, and the capabilities that an engine has for all of them."""


def claimable_programs(known: Iterable[str], toolboxes: Collection[Toolbox]) -> frozenset[str]:
    """The programs among `known` that an engine can run: one of its toolboxes is for them, and has all that they need."""
    return frozenset(one for one in known if any(program_base(one) in programs and program_requirements(one) <= has for programs, has in toolboxes))


def program_text(program: str) -> str:
    """A program as people read it: ``order@2``, or ``order`` as long as no version is pinned."""
    return program_base(program).removesuffix("@")
