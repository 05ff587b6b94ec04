"""Gives operations their paths. Names are numbered per scope: each context, and each task that uses one, has its own.

Numbers are per scope because a path must not depend on what other branches do. A name may contain anything, so a path is a tuple and never text.
"""

from perdure.code.declarations import checked_name
from perdure.core.errors import DuplicateName
from perdure.core.operations import Operation, operation_kind, operation_target
from perdure.core.paths import Path, path_text


def reply_path(path: Path, number: int) -> Path:
    """Returns the path of the reply to message `number`, received at `path`."""
    return (*path, (f"reply:{number}", 1))


def refusal_path(path: Path) -> Path:
    """Returns the path that records a failure to keep or read the value of an operation. No operation of a program has an empty name."""
    return (*path, ("", 1))


def operation_text(path: Path, op: Operation) -> str:
    """Returns an operation as text for a report of differences."""
    aim = operation_target(op)
    return f"{path_text(path)} ({operation_kind(op)} {aim})" if aim else f"{path_text(path)} ({operation_kind(op)})"


class NameScope:
    """The names used so far under one path."""

    __slots__ = ("_counts", "_explicit", "loop_alive", "path")

    def __init__(self, path: Path) -> None:
        self.path = path
        self.loop_alive: object = None
        self._counts: dict[str, int] = {}
        self._explicit: set[str] | None = None

    def take(self, default: str, explicit: str | None = None) -> Path:
        """Returns the path of the next operation, by its explicit name or by its default name, which is numbered when repeated.

        Raises:
            DuplicateName: the explicit name was used before in this scope.
            BadName: a name is not text, is empty, or is too long.
        """
        if explicit is not None:
            checked_name(explicit, "operation")
            if self._explicit is None:
                self._explicit = set()
            if explicit in self._explicit:
                raise DuplicateName(explicit, path_text(self.path))
            self._explicit.add(explicit)
            default = explicit
        elif not default.isascii():  # a default name from a task or a title may be any text; an ASCII one is bounded where it is made
            checked_name(default, "operation")
        number = self._counts.get(default, 0) + 1
        self._counts[default] = number
        return (*self.path, (default, number))
