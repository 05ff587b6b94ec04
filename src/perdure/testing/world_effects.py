"""Records the effects that steps have on the outside world, as reported by test doubles.

A step cannot show by itself that it is idempotent. The test double of an external system therefore reports each effect with its idempotency key. An effect
whose key was seen before does not happen again.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from perdure.code.step_environment import current_step
from perdure.core.paths import Key, path_text

Doing = tuple[str, str, str]
"""The workflow's name, the path of the step as text, and the effect."""


class Effect(NamedTuple):
    """An effect on the outside world. `repeated` says that its key was seen before, so that nothing happened.

    `execution`, `path` and `attempt` identify the attempt that caused it; outside of steps they are None, "" and 0.
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
        """The step, as messages name it."""
        return f"step {self.path} of {self.execution}"


class Effects:
    """All effects, in order. Iterate over them, or `count` those that happened."""

    def __init__(self) -> None:
        self._all: list[Effect] = []
        self._known: set[tuple[str, str]] = set()

    def __iter__(self) -> Iterator[Effect]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)

    def count(self, what: str, key: str | None = None) -> int:
        """How often this happened, without repetitions under the same key."""
        return sum(not one.repeated and one.what == what and key in (None, one.key) for one in self._all)

    def add(self, what: str, key: str | None, once: bool) -> bool:
        """Records an effect; returns whether it happens, or False if its key was seen before."""
        info = current_step.get(None)
        repeated = key is not None and (what, key) in self._known
        if key is not None:
            self._known.add((what, key))
        execution, path, attempt = (None, "", 0) if info is None else (info.execution, path_text(info.path), info.attempt)
        self._all.append(Effect(what, key, repeated, execution, path, attempt, once))
        return not repeated

    @property
    def done(self) -> Counter[Doing]:
        """The effects of steps that happened, and how often."""
        return Counter((one.execution.workflow, one.path, one.what) for one in self._all if one.execution is not None and one.once and not one.repeated)

    def done_again(self, undisturbed: Counter[Doing] | None) -> list[str]:
        """Describes the effects that a step repeated in another attempt without a key, or had more often than in the undisturbed world, if that is known."""
        groups: dict[tuple[Key, str, str], list[Effect]] = {}
        for one in self._all:
            if one.execution is not None and one.once and not one.repeated:
                groups.setdefault((one.execution, one.path, one.what), []).append(one)
        return [line for done in groups.values() if (line := _again(done, undisturbed)) is not None]


def _again(done: Sequence[Effect], undisturbed: Counter[Doing] | None) -> str | None:
    """Describes a repetition among effects of the same kind and step, if there is one."""
    attempts = sorted({one.attempt for one in done})
    bare = sorted({one.attempt for one in done if one.key is None})
    first = done[0]
    if len(bare) > 1:
        return f"{first.step} did {first.what!r} in attempt {bare[0]}, and again in attempt {bare[1]}, with no key"
    if undisturbed is None or first.execution is None or len(attempts) == 1:
        return None
    usual = undisturbed[first.execution.workflow, first.path, first.what]
    if not 0 < usual < len(done):
        return None
    return (
        f"{first.step} did {first.what!r} {len(done)} times in place of {usual}, in attempts {attempts[0]} and {attempts[1]}: its key is not the same in both"
    )
