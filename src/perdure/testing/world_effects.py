"""Effects: what steps do to the world outside, as the test doubles that stand for it tell.

That a step is idempotent can't be seen from within: it begins again, and that is all. So whoever stands for the world in a test
says what would have happened there, and under which key. What came with a key that was seen before did not happen again.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from perdure.code.step_environment import current_step
from perdure.core.paths import Key, path_text

Doing = tuple[str, str, str]
"""Which step of which workflow did what: the workflow's name, the path as text, the effect."""


class Effect(NamedTuple):
    """Something that was asked of the world. `repeated`: it had been done before under this key, so nothing happened.

    `execution`, `path` and `attempt` say by which try of which step; None, "" and 0: not by a step.
    """

    what: str
    key: str | None
    repeated: bool
    execution: Key | None
    path: str
    attempt: int
    once: bool

    @property
    def step(self) -> str:
        """The step, as people call it."""
        return f"step {self.path} of {self.execution}"


class Effects:
    """Everything that was asked of the world, in order; iterate over it, or `count` what was really done."""

    def __init__(self) -> None:
        self._all: list[Effect] = []
        self._known: set[tuple[str, str]] = set()

    def __iter__(self) -> Iterator[Effect]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)

    def count(self, what: str, key: str | None = None) -> int:
        """How often this was done, repetitions under the same key left out."""
        return sum(not one.repeated and one.what == what and key in (None, one.key) for one in self._all)

    def add(self, what: str, key: str | None, once: bool) -> bool:
        """Take note of an effect; return whether it is to be done, or was done before under this key."""
        info = current_step.get(None)
        repeated = key is not None and (what, key) in self._known
        if key is not None:
            self._known.add((what, key))
        execution, path, attempt = (None, "", 0) if info is None else (info.execution, path_text(info.path), info.attempt)
        self._all.append(Effect(what, key, repeated, execution, path, attempt, once))
        return not repeated

    @property
    def done(self) -> Counter[Doing]:
        """What steps have really done, and how often."""
        return Counter((one.execution.workflow, one.path, one.what) for one in self._all if one.execution is not None and one.once and not one.repeated)

    def done_again(self, undisturbed: Counter[Doing] | None) -> list[str]:
        """What a step has done in one try and then, without a key, in another; or more often than in an undisturbed world, if that is known."""
        groups: dict[tuple[Key, str, str], list[Effect]] = {}
        for one in self._all:
            if one.execution is not None and one.once and not one.repeated:
                groups.setdefault((one.execution, one.path, one.what), []).append(one)
        return [line for done in groups.values() if (line := _again(done, undisturbed)) is not None]


def _again(done: Sequence[Effect], undisturbed: Counter[Doing] | None) -> str | None:
    """In words, that this was done again, if it was: the same effect of the same step, whenever it was really done."""
    tries = sorted({one.attempt for one in done})
    bare = sorted({one.attempt for one in done if one.key is None})
    first = done[0]
    if len(bare) > 1:
        return f"{first.step} did {first.what!r} in try {bare[0]}, and again in try {bare[1]}, with no key"
    if undisturbed is None or first.execution is None or len(tries) == 1:
        return None
    usual = undisturbed[first.execution.workflow, first.path, first.what]
    if not 0 < usual < len(done):
        return None
    return f"{first.step} did {first.what!r} {len(done)} times in place of {usual}, in tries {tries[0]} and {tries[1]}: its key is not the same in both"
