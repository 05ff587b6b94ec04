"""The errors by which a test in a world fails, besides its own assertions, as one tree.

AssertionError
└── Verdict
    ├── Stuck          an execution waits for something that cannot happen by itself
    ├── Endless        it continues past a bound
    ├── Unanswered     a mock has no answer left, or a strict world has no mock
    ├── NotReplayed    the code, replayed over an execution's own log, diverges from it
    ├── NotIdempotent  a step that ran again repeated its effect
    └── NotReached     the process was to be killed at a write that never happened
"""

from collections.abc import Sequence


class Verdict(AssertionError):
    """A defect of the code under test, or of the test."""


class Stuck(Verdict):
    """Nothing more can happen by itself; `why` says what the execution waits for."""

    def __init__(self, what: str, why: str, advice: str) -> None:
        super().__init__(f"{what} can't happen by itself: {why}; {advice}")
        self.what, self.why = what, why


class Endless(Verdict):
    """A call continued past a bound of virtual time or of callbacks."""

    def __init__(self, what: str, bound: str, standing: Sequence[str]) -> None:
        shown = "; ".join(standing) or "every execution has ended"
        super().__init__(f"{what} did not end within {bound}: {shown}. Look for an endless loop, or raise the bound")
        self.what, self.standing = what, tuple(standing)


class Unanswered(Verdict):
    """A step was called, and the test has no answer for it."""

    def __init__(self, who: str, why: str, advice: str) -> None:
        super().__init__(f"{who} has no answer: {why}; {advice}")


class NotReplayed(Verdict):
    """An execution, replayed over its own log, diverges; `diff` has a line for each difference."""

    def __init__(self, key: object, diff: Sequence[str]) -> None:
        lines = "\n  ".join(diff)
        super().__init__(
            f"{key} diverges when it is replayed over its own log: {lines}\nA workflow must ask for the same operations whenever it runs over the same log: "
            "take the time from ctx.now(), random values from ctx.random and ctx.uuid(), and anything else that may change from a step or ctx.keep(). "
            "@pytest.mark.perdure(replay=False) omits this check"
        )
        self.key, self.diff = key, tuple(diff)


class NotIdempotent(Verdict):
    """Steps that ran again repeated their effects; `found` has a line for each."""

    def __init__(self, found: Sequence[str]) -> None:
        lines = "\n  ".join(found)
        super().__init__(
            f"not idempotent: {lines}\nA step is attempted again when its process dies before its outcome is recorded, or when an attempt fails late. Send its "
            "idempotency key, which is the same in every attempt, so that the receiver can detect the repetition (in the test double: "
            "world.effect(what, key=step_info().key)); or check first whether the effect has happened; or declare @step(idempotent=False) and handle a "
            "failure of the kind interrupted"
        )
        self.found = tuple(found)


class NotReached(Verdict):
    """The write at which the process was to be killed never happened."""

    def __init__(self, moment: str, writes: int) -> None:
        super().__init__(f"the process was to be killed at {moment}, but there were only {writes} durable writes; choose an earlier one")
        self.moment, self.writes = moment, writes
