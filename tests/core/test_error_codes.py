"""The codes of errors are explicit, unique and lower case, and logs name Perdure's own errors by them."""

import re

import pytest

from perdure.core import error_codes, errors
from perdure.core.errors import Fatal, StepFailed

CLASSES = [one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, BaseException) and one.__module__ == errors.__name__]
RECORDED = {name: code for name, code in vars(error_codes).items() if name.isupper()}


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_every_class_states_its_own_code(kind: type[BaseException]) -> None:
    assert re.fullmatch(r"[a-z]+(_[a-z]+)*", vars(kind)["code"])


def test_no_code_is_given_twice() -> None:
    codes = [vars(kind)["code"] for kind in CLASSES]
    assert len(set(codes)) == len(codes) and len(set(RECORDED.values())) == len(RECORDED)
    assert all(re.fullmatch(r"[a-z]+(_[a-z]+)*", code) for code in RECORDED.values())


def test_an_exception_of_a_user_is_named_by_its_class_also_below_one_of_perdure() -> None:
    class OutOfPaper(Fatal):
        code = "E17"

    assert error_codes.error_code(OutOfPaper).endswith("OutOfPaper")
    assert error_codes.error_code(ValueError) == "ValueError" and error_codes.error_code(StepFailed) == "step_failed"
