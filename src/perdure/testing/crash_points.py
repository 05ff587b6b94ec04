"""Crash points: the moments at which a process can be killed, just before a durable write takes effect or just after, before the process learns of it."""

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

T = TypeVar("T")

EVERY = "every"
EXPECTED = 'crash_at is "every", the number of a write such as 7, or one side of it: "before:7", "after:7"'


class CrashPoint(NamedTuple):
    """The death of a process just before or just after the durable write of this number, counted from 1."""

    write: int
    after: bool

    def __str__(self) -> str:
        return f"{'after' if self.after else 'before'} write {self.write}"

    @property
    def spec(self) -> str:
        """The crash point as the value of an option."""
        return f"{'after' if self.after else 'before'}:{self.write}"


def parse_crash_points(wanted: object) -> tuple[CrashPoint, ...] | None:
    """The crash points that an option names; None for every write.

    Raises:
        ValueError: the option is invalid.
    """
    if wanted == EVERY:
        return None
    side, _, number = str(wanted).rpartition(":")
    if side not in ("", "before", "after") or not number.isdecimal() or int(number) < 1 or isinstance(wanted, bool):
        raise ValueError(f"{wanted!r}: {EXPECTED}")
    return tuple(CrashPoint(int(number), after) for after in (False, True) if side in ("", "after" if after else "before"))


def around_writes(writes: Sequence[int]) -> list[CrashPoint]:
    """The crash points before and after each of these writes."""
    return [CrashPoint(number, after) for number in writes for after in (False, True)]


def evenly_spread(all_of_them: Sequence[T], most: int | None) -> list[T]:
    """At most so many of the items, evenly spread."""
    if most is None or len(all_of_them) <= most:
        return list(all_of_them)
    return [all_of_them[index * len(all_of_them) // most] for index in range(most)]
