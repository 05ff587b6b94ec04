"""Verdicts: what a test in a world fails by, beside its own assertions, as one tree.

AssertionError
└── Verdict
    ├── Stuck          an execution waits for what can't come by itself
    ├── Endless        it goes on and on, past a bound
    ├── Unanswered     a mock has no answer left, or a world that is strict has no mock
    ├── NotReplayed    the code, run again over an execution's own log, does something else
    ├── NotIdempotent  a step that ran again changed the world again
    └── NotReached     the process was to be killed at a write that was never made
"""

from collections.abc import Sequence


class Verdict(AssertionError):
    """What is wrong with the code under test, or with the test."""


class Stuck(Verdict):
    """Nothing more can happen by itself; `why` says what is waited for."""

    def __init__(self, what: str, why: str, advice: str) -> None:
        super().__init__(f"{what} can't come about by itself: {why}; {advice}")
        self.what, self.why = what, why


class Endless(Verdict):
    """It went on past a bound, of virtual time or of callbacks."""

    def __init__(self, what: str, bound: str, standing: Sequence[str]) -> None:
        shown = "; ".join(standing) or "every execution has ended"
        super().__init__(f"{what}: {bound} have passed, and it is not over: {shown}. Look for a loop without an end, or give it more")
        self.what, self.standing = what, tuple(standing)


class Unanswered(Verdict):
    """A step asked, and the test has no answer for it."""

    def __init__(self, who: str, why: str, advice: str) -> None:
        super().__init__(f"{who} has no answer: {why}; {advice}")


class NotReplayed(Verdict):
    """Replayed against its own log, an execution differs; `diff` says where, a line for each difference."""

    def __init__(self, key: object, diff: Sequence[str]) -> None:
        lines = "\n  ".join(diff)
        super().__init__(
            f"{key}, replayed against its own log, is not the same: {lines}\nA workflow must ask for the same whenever it is run over the same log: take time "
            "from ctx.now(), chance from ctx.random and ctx.uuid(), and whatever else may change from a step or ctx.keep(). "
            "@pytest.mark.perdure(replay=False) leaves this check out"
        )
        self.key, self.diff = key, tuple(diff)


class NotIdempotent(Verdict):
    """Steps that ran again have changed the world again; `found` has a line for each."""

    def __init__(self, found: Sequence[str]) -> None:
        lines = "\n  ".join(found)
        super().__init__(
            f"not idempotent: {lines}\nA step begins again when its process dies before the result is remembered, or when a try fails late. Send its "
            "key along, which is the same in every try, so that whoever is asked can tell (in the test double: world.effect(what, key=step_info().key)); "
            "or look first whether it is done; or declare it @step(idempotent=False) and deal with a failure of the kind interrupted"
        )
        self.found = tuple(found)


class NotReached(Verdict):
    """The write at which the process was to be killed was never made."""

    def __init__(self, moment: str, writes: int) -> None:
        super().__init__(f"the process was to be killed at {moment}, but there were only {writes} durable writes; choose an earlier one")
        self.moment, self.writes = moment, writes
