"""Claims about what steps raise: declared classes and those below them are rebuilt, `Rollback` undoes also from an attempt, and text is bounded."""

from typing import Any

import pytest

from perdure import Context, Err, Fatal, Retry, Rollback, StepFailed, step, workflow
from perdure.code.exception_data import error_info
from perdure.core.error_text import shorten_text
from perdure.core.limits import ERROR_MESSAGE_CHARACTERS_MAX
from perdure.core.secret_masks import Mask
from perdure.core.thread_calls import without_stop_iteration
from tests.code.engines import virtually, world
from tests.hostile_values import EXCEPTIONS, Kept, TwoNeeded


class Payment(Exception):
    pass


class Declined(Payment):
    def __init__(self, code: int, *, reason: str) -> None:
        super().__init__(f"declined: {reason}")
        self.code, self.reason = code, reason


RAISED: dict[str, tuple[Any, tuple[type[Exception], ...], str]] = {
    "below a declared class": (lambda: FileNotFoundError(2, "no such", "x"), (OSError,), "FileNotFoundError: [Errno 2] no such: 'x'"),
    "with another init": (lambda: Declined(5, reason="limit"), (Payment,), "Declined: declined: limit"),
    "declared twice, by the class itself": (lambda: TwoNeeded(1, 2), (Exception, TwoNeeded), "TwoNeeded: 1 and 2"),
    "with attributes that can't be kept": (lambda: Kept(5), (Kept,), "Kept: code 5"),
    "with arguments that can't be kept": (lambda: ValueError(object), (ValueError,), "StepFailed"),
    "of no declared class": (lambda: KeyError("x"), (OSError,), "StepFailed"),
}


@virtually
@pytest.mark.parametrize(("make", "raises", "expected"), RAISED.values(), ids=RAISED)
async def test_a_declared_class_and_one_below_it_arrive_as_themselves_else_as_step_failed(make: Any, raises: Any, expected: str) -> None:
    @step(raises=raises, retry=Retry(max=1))
    def fails() -> None:
        raise make()

    @workflow
    async def tries(ctx: Context) -> list[Any]:
        try:
            await ctx.step(fails)
        except StepFailed as failed:
            return ["StepFailed", failed.error.type]
        except Exception as error:
            return [f"{type(error).__name__}: {error}", getattr(error, "code", None)]
        return []

    async with world(tries) as w:
        key = await w.start(tries)
        found = await w.result(key)
        assert found[0] == expected
        assert expected == "StepFailed" or found[1] == getattr(make(), "code", None)
        await w.replayed(key)


undone: list[str] = []


@step
def done() -> str:
    return "done"


@done.undo
def undo(result: str) -> None:
    undone.append(result)


@step
def rolls_back() -> None:
    raise Rollback("not today")


@step
def gives_up() -> None:
    raise Fatal("never")


@virtually
@pytest.mark.parametrize("verb", ["step", "attempt"])
async def test_rollback_in_a_step_undoes_whatever_verb_has_run_it(verb: str) -> None:
    @workflow
    async def rolling(ctx: Context) -> str:
        await ctx.step(done)
        await (ctx.step(rolls_back) if verb == "step" else ctx.attempt(rolls_back))
        return "went on"

    undone.clear()
    async with world(rolling) as w:
        error = await w.failure(rolling)
        assert (error.type, error.message, undone) == ("rollback", "not today", ["done"])


@virtually
async def test_fatal_in_a_step_is_one_try_whatever_verb_has_run_it() -> None:
    @workflow
    async def giving_up(ctx: Context) -> list[Any]:
        outcome = await ctx.attempt(gives_up)
        assert isinstance(outcome, Err)
        try:
            await ctx.step(gives_up)
        except StepFailed as failed:
            return [outcome.kind, outcome.attempts, failed.kind, failed.attempts]
        return []

    async with world(giving_up) as w:
        assert await w.run(giving_up) == ["fatal", 1, "fatal", 1]


@pytest.mark.parametrize("name", EXCEPTIONS)
def test_whatever_is_raised_becomes_an_error_that_can_be_stored(name: str) -> None:
    info = error_info(EXCEPTIONS[name]())
    for text in (info.type, info.message, info.traceback):
        text.encode()
    assert info.type and len(info.message) < 2 * ERROR_MESSAGE_CHARACTERS_MAX


def test_a_stop_iteration_comes_out_of_a_thread_as_an_error_that_futures_can_carry() -> None:
    with pytest.raises(RuntimeError, match="give next\\(\\) a default"):
        without_stop_iteration(next)(iter(()))
    assert without_stop_iteration(next)(iter("a")) == "a"


def test_where_a_text_is_cut_nothing_of_a_secret_is_left() -> None:
    secret = "correct horse battery staple"
    for at in range(60, 80):
        said = "x" * at + secret + "y" * 100
        assert not any(secret[:size] in shorten_text(said, 100, Mask([secret]).cut) for size in (6, len(secret)))
