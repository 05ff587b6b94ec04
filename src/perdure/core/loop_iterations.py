"""Indexes operations by the loop iteration that they lie in, so that forgetting an iteration costs only what is in it."""

from collections.abc import Callable, Iterator, Mapping

from perdure.core.paths import Path


class LoopIterations:
    """For each iteration, by its path: the operations in it, and the iterations of loops inside of it."""

    __slots__ = ("_inside",)

    def __init__(self) -> None:
        self._inside: dict[Path, dict[Path, None]] = {}

    def __len__(self) -> int:
        return len(self._inside)

    def __contains__(self, turn: Path) -> bool:
        return turn in self._inside

    def inside(self) -> dict[Path, list[Path]]:
        """Returns the index as plain data."""
        return {turn: list(paths) for turn, paths in self._inside.items()}

    def add(self, path: Path) -> None:
        """Adds an operation to its innermost iteration, and that iteration to the one around it, and so on outwards."""
        entry, end = path, len(path)
        while (end := _iteration_end(path, end)) > 0:
            turn = path[:end]
            known = turn in self._inside
            self._inside.setdefault(turn, {})[entry] = None
            if known:
                return
            entry = turn
            end -= 2  # the loop's own name lies in the enclosing scope

    def any(self, turn: Path, holds: Callable[[Path], bool]) -> bool:
        """Whether `holds` is true of any operation in an iteration."""
        inside = self._inside.get(turn, ())
        return any(holds(path) or (path != turn and path in self._inside and self.any(path, holds)) for path in inside)

    def forget(self, turn: Path) -> Iterator[Path]:
        """Forgets an iteration; yields the operations that lay in it, and the iterations of loops inside of it."""
        outer = _iteration_end(turn, len(turn) - 2)
        self._inside.get(turn[:outer], {}).pop(turn, None)
        for path in self._inside.pop(turn, ()):
            yield path
            if path != turn and isinstance(path[-1], int):
                yield from self.forget(path)


def is_in_trimmed_iteration(path: Path, trimmed: Mapping[Path, int]) -> bool:
    """Whether a path lies in a forgotten iteration: `trimmed` has the first kept iteration of each loop."""
    return any(isinstance(segment, int) and segment < trimmed.get(path[:end], 0) for end, segment in enumerate(path))


def _iteration_end(path: Path, end: int) -> int:
    """Returns the length of the longest prefix of `path`, at most `end` long, that is an iteration; 0 if none is."""
    while end > 0 and type(path[end - 1]) is not int:
        end -= 1
    return max(0, end)
