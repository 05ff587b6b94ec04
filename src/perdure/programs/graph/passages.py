"""Passages: which nodes a walk has begun, each with when and how it ended. Kept only for a view of an execution; an engine has no use for it."""

from collections.abc import Iterable

from perdure.core.errors import ErrorInfo
from perdure.core.ops import Err
from perdure.core.paths import Path
from perdure.programs.graph.ir import Node
from perdure.programs.graph.names import Done


class Passage:
    """One time that a node fired and began. It has settled by a `port`, or with an `error`, if one of the two is there; at `ended_at_s` it was left.

    One that was left and has not settled was given up: nothing waits for it any more. So many operations had been opened before it: `number`.
    """

    __slots__ = ("began_at_s", "ended_at_s", "error", "node", "number", "port")

    def __init__(self, node: Node, number: int, at_s: float) -> None:
        self.node, self.number, self.began_at_s = node, number, at_s
        self.ended_at_s: float | None = None
        self.port: str | None = None
        self.error: ErrorInfo | None = None

    @property
    def has_settled(self) -> bool:
        """Whether the node has come to a result or an error."""
        return self.port is not None or self.error is not None


class Passages:
    """The passages of one walk by path, in the order in which they began."""

    __slots__ = ("known",)

    def __init__(self) -> None:
        self.known: dict[Path, Passage] = {}

    def begin(self, path: Path, node: Node, number: int, at_s: float) -> None:
        """A node begins, behind the operation of this number."""
        self.known[path] = Passage(node, number, at_s)

    def settle(self, path: Path, how: Done | Err) -> None:
        """A node has come to a result or an error. It goes on if others stand in for it, or if Python has to say where it leads."""
        passage = self.known[path]
        if isinstance(how, Err):
            passage.error = how.error
        else:
            passage.port = how.port

    def leave(self, paths: Iterable[Path], at_s: float) -> None:
        """Nodes are not open any more: they have settled, or were given up."""
        for path in paths:
            passage = self.known.get(path)  # one that was given up before it began is none
            if passage is not None and passage.ended_at_s is None:
                passage.ended_at_s = at_s

    def end_around(self, path: Path, at_s: float) -> None:
        """The node at a path ends the execution well, and with it the blocks in which it lies."""
        for end in range(1, len(path) + 1):
            passage = self.known.get(path[:end])
            if passage is not None and not passage.has_settled:
                passage.port = "success"
            self.leave((path[:end],), at_s)
