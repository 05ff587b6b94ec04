"""Scopes: where the names of operations are counted. Each context, and each task that uses one, has its own.

A path must not depend on what other branches do, so numbers are counted per scope; and a name may contain anything, so a
path is a tuple and never text.
"""

from asyncio import Future
from typing import Any

from perdure.core.errors import DuplicateName
from perdure.core.paths import Path, text
from perdure.programs.code.declare import checked_name


class Marks:
    """What a branch has received: `unused`, by task, the receives after which that has done nothing (None: the branch's own task), and `held`,
    those that are to be completed, with the numbers of their messages that are not."""

    __slots__ = ("held", "unused")

    def __init__(self) -> None:
        self.unused: dict[Future[Any] | None, list[Path]] = {}
        self.held: dict[Path, set[int]] = {}

    def hold(self, path: Path, numbers: set[int]) -> None:
        """Note messages that are to be completed; forget what has been."""
        while self.held and not self.held[first := next(iter(self.held))]:
            del self.held[first]
        self.held[path] = numbers

    def use(self, task: Future[Any] | None) -> None:
        """What `task` received is used, as it does something further; in the branch's own, that of helpers that have ended as well."""
        self.unused.pop(task, None)
        if task is None and self.unused:
            self.unused = {other: paths for other, paths in self.unused.items() if other is None or not other.done()}

    def take_over(self, ended: "Marks", task: Future[Any] | None) -> None:
        """What a branch had received when it ended is its parent's now."""
        for paths in ended.unused.values():
            self.unused.setdefault(task, []).extend(paths)
        for path, numbers in ended.held.items():
            self.hold(path, numbers)


class Scope:
    """The names used so far under one path. Helper tasks and the turns of a loop share the marks of the branch that they are part of."""

    __slots__ = ("_counts", "_explicit", "loop_alive", "marks", "path", "task")

    def __init__(self, path: Path, marks: Marks | None = None, task: Future[Any] | None = None) -> None:
        self.path = path
        self.task = task
        self.marks = Marks() if marks is None else marks
        self.loop_alive: object = None
        self._counts: dict[str, int] = {}
        self._explicit: set[str] | None = None

    def take(self, default: str, explicit: str | None = None) -> Path:
        """The path of the next operation, by its explicit name or by its default one, which is numbered when repeated.

        Raises:
            DuplicateName: the explicit name was used before in this scope.
            BadName: a name is no text, empty, or too long.
        """
        if explicit is not None:
            checked_name(explicit, "operation")
            if self._explicit is None:
                self._explicit = set()
            if explicit in self._explicit:
                raise DuplicateName(explicit, text(self.path))
            self._explicit.add(explicit)
            default = explicit
        if self.marks.unused:
            self.marks.use(self.task)
        number = self._counts.get(default, 0) + 1
        self._counts[default] = number
        return (*self.path, (default, number))
