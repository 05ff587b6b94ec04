"""Exit codes: every error has one, every status has one, and the table says what each means."""

import inspect
from typing import get_args

import pytest

from perdure.cli import exit_codes
from perdure.cli.exit_codes import ExitCode
from perdure.core import errors
from perdure.core.errors import ErrorInfo, PerdureError
from perdure.core.execution import ExecutionStatus
from perdure.core.paths import Key

KEY = Key("default", "order", "o1")
INFO = ErrorInfo("ValueError", "no")


def test_every_named_error_is_one() -> None:
    for name in exit_codes.EXIT_CODE_OF_ERROR:
        assert issubclass(getattr(errors, name), PerdureError), name


def test_every_error_of_ours_has_a_code_that_is_no_defect() -> None:
    ours = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, PerdureError) and kind is not PerdureError]
    assert [kind for kind in ours if exit_codes.exit_code_of_error(kind) == ExitCode.DEFECT] == []


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.BadValue("x", 1, "y"), 10),
        (errors.UnknownWorkflow("order", []), 10),
        (errors.Timeout("x", 1.0), 43),
        (errors.DeadlineExceeded(KEY, INFO), 43),
        (errors.ExecutionFailed(KEY, INFO), 40),
        (errors.ExecutionCancelled(KEY, ""), 41),
        (errors.NeedsAttention(KEY, "diverged", ""), 32),
        (errors.NotFound(KEY), 44),
        (errors.AlreadyExists(KEY), 45),
        (errors.DecisionRefused(KEY, "no"), 46),
        (errors.LinkRefused("no"), 46),
        (errors.Forbidden("key:a", "x", "admin"), 46),
        (errors.Unauthenticated("no"), 46),
        (errors.TooDeep("x", 3), 40),
        (errors.LogDamaged("x"), 50),
        (KeyError("x"), 1),
        (TimeoutError(), 1),
    ],
    ids=lambda value: str(value)[:30],
)
def test_an_error_has_the_code_of_its_nearest_base(error: Exception, code: int) -> None:
    assert exit_codes.exit_code_of_error(type(error)) == code


def test_every_status_has_a_code() -> None:
    codes = {"completed": 0, "failed": 40, "cancelled": 41, "needs_attention": 32, "waiting_approval": 31}
    assert {status: int(exit_codes.exit_code_of_status(status)) for status in (*get_args(ExecutionStatus), "waiting_approval")} == {
        **dict.fromkeys(get_args(ExecutionStatus), 30),
        **codes,
    }


def test_every_code_is_explained() -> None:
    assert set(exit_codes.MEANINGS) == set(ExitCode)
    assert all(str(int(code)) in exit_codes.exit_code_table() for code in ExitCode)
