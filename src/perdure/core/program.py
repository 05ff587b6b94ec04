"""The protocol of programs, the commands that they issue, and the names under which engines claim them."""

import difflib
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal, Protocol

import msgspec

from perdure.core.errors import Diverged
from perdure.core.events import Event
from perdure.core.execution import Execution
from perdure.core.operations import Operation, Outcome
from perdure.core.paths import Path
from perdure.core.replay_cursor import ReplayCursor


class OpenCommand(msgspec.Struct, frozen=True, gc=False):
    """Opens an operation. `blobs` has the payloads that it refers to, by hash."""

    path: Path
    op: Operation
    blobs: tuple[tuple[str, bytes], ...] = ()


class DropCommand(msgspec.Struct, frozen=True, gc=False):
    """Drops an open operation, or returns the messages of a settled receive to the mailbox. An operation that `lost` a race has no grace."""

    path: Path
    lost: bool = False


class TrimCommand(msgspec.Struct, frozen=True, gc=False):
    """Forgets the iterations of a loop before `before`. Those from `undo_before` on can still be undone."""

    path: Path
    before: int
    undo_before: int = 0


class FinishCommand(msgspec.Struct, frozen=True, gc=False):
    """Ends the execution. `path` is that of the step that made it fail, where the program knows it."""

    status: Literal["completed", "failed", "cancelled"]
    outcome: Outcome
    path: Path = ()


WARNING_LEVEL = 30
"""The level of warnings in the standard library's `logging`."""


class LogCommand(msgspec.Struct, frozen=True, gc=False):
    """Writes a line to the log of the process. It is not recorded in the execution's log, and replay writes none."""

    level: int
    text: str
    fields: tuple[tuple[str, Any], ...] = ()


ProgramCommand = OpenCommand | DropCommand | TrimCommand | FinishCommand | LogCommand


class Program(Protocol):
    """An incremental fold over the events of one execution: fed each event as it happens, or all of them again on replay."""

    @property
    def awake(self) -> bool:
        """Whether the program was fed. That of an execution that has ended is not, until the execution is undone."""
        ...

    @property
    def keeps_archives(self) -> bool:
        """Whether compaction keeps what it replaces."""
        ...

    def feed(self, execution: Execution, event: Event, recorded: ReplayCursor | None, values: Mapping[str, bytes]) -> Sequence[ProgramCommand]:
        """Takes one external event, already folded into `execution`; returns the commands that the program issues because of it.

        On replay `recorded` has the commands of the log at this place, from which the program takes those that it issues again; live it is None.
        `values` has the payloads of the blobs that the event refers to, by hash.

        Raises:
            Diverged: the program issued another command than the log has.
        """
        ...

    def unfit(self, definition: bytes) -> tuple[str, ...]:
        """Returns the reasons why the program can't continue with another definition; empty if it can."""
        ...

    def refuse(self, diverged: Diverged) -> None:
        """Stops the program: it raises `diverged` for whatever it is fed from here on."""
        ...

    def close(self) -> None:
        """Removes the program from memory: nothing that it still does is recorded."""
        ...


@lru_cache(maxsize=4096)
def program_name(workflow: str, version: int, needs: frozenset[str] = frozenset()) -> str:
    """Returns the name in heads and claims: ``order@2``, or ``order@`` as long as no version is pinned. Two programs never share one.

    The capabilities that an engine `needs` for it (tools, kinds, definitions that are called) follow in order, each on a line of its own.
    """
    return "\n".join((f"{workflow}@{version or ''}", *sorted(needs)))


def program_base(program: str) -> str:
    """Returns a program name without the capabilities."""
    return program.partition("\n")[0]


def program_requirements(program: str) -> frozenset[str]:
    """Returns the capabilities in a program name."""
    return frozenset(program.split("\n")[1:])


CATALOG_PROGRAM = "perdure.definition"
"""The name by which engines claim executions of definitions that they need not know: those that came from the catalog, or with the start."""


def is_hosted(program: str) -> bool:
    """Whether a program name is that of such an execution."""
    return program.startswith(f"{CATALOG_PROGRAM}@")


def execution_program(execution: Execution, needs: frozenset[str] = frozenset()) -> str:
    """Returns the name in the head of an execution that has begun."""
    started = execution.started
    assert started is not None, "the execution has begun"
    return program_name(execution.program or execution.key.workflow, started.version, needs)


Toolbox = tuple[frozenset[str], frozenset[str]]
"""The base names of programs, and the capabilities that an engine has for all of them."""


def claimable_programs(known: Iterable[str], toolboxes: Collection[Toolbox]) -> frozenset[str]:
    """Returns the programs among `known` that an engine can run: one of its toolboxes names them and has all capabilities that they need."""
    return frozenset(one for one in known if any(program_base(one) in programs and program_requirements(one) <= has for programs, has in toolboxes))


def near_programs(program: str, known: Iterable[str]) -> str:
    """Returns, in parentheses behind a blank, which other versions of a program or which similar name is among the `known`; empty if there is none."""
    workflow = program_text(program).rpartition("@")[0] or program_text(program)
    names = sorted({program_text(one) for one in known})
    if versions := [one for one in names if one.rpartition("@")[0] == workflow]:
        return f" (only {', '.join(versions)})"
    near = difflib.get_close_matches(workflow, dict.fromkeys(one.rpartition("@")[0] for one in names), 1)
    return f" (did you mean {near[0]}?)" if near else ""


def program_text(program: str) -> str:
    """Returns a program name for people: ``order@2``, or ``order`` as long as no version is pinned."""
    return program_base(program).removesuffix("@")
