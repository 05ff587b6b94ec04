"""The reference is that of the docstrings, and complete: every public name stands there, and every error with its cause and what to do."""

import inspect

import pytest

import perdure
from perdure.core import errors
from tests.docs import error_examples
from tests.docs.error_entries import ENTRIES, RECORDED
from tests.docs.reference import DIRECTORY, GROUPS, OTHERS, PAGES, kinds, recorded_rows

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("page", PAGES)
def test_a_page_is_what_the_docstrings_say(page: str) -> None:
    written = (DIRECTORY / page).read_text(encoding="utf-8")
    assert written == PAGES[page](), f"docs/reference/{page} is out of date: python -m tests.docs.reference"


def test_every_public_name_is_in_one_group() -> None:
    grouped = [name for names in GROUPS.values() for name in names]
    exported = {name for name in perdure.__all__ if name == "ErrorInfo" or not hasattr(errors, name)}
    assert sorted(grouped) == sorted(exported), "give a new name a place in GROUPS of tests/docs/reference.py"
    assert not set(OTHERS) & exported


def test_every_error_has_its_cause_and_what_to_do() -> None:
    names = {kind.__name__ for kind in kinds()}
    assert names == set(ENTRIES), "give a new error a cause and what to do in tests/docs/error_entries.py"
    assert {name for name in perdure.__all__ if isinstance(thing := getattr(perdure, name), type) and issubclass(thing, BaseException)} <= names
    assert all(cause.endswith((".", ")")) and fix.endswith((".", ")")) for cause, fix in ENTRIES.values())


def test_every_error_has_an_example_or_a_reason_to_have_none() -> None:
    shown = [*error_examples.RAISED, *error_examples.MADE, *error_examples.WITHOUT]
    assert sorted(shown) == sorted(kind.__name__ for kind in kinds()), "give a new error an example in tests/docs/error_examples.py"
    assert all(type(made).__name__ == name for name, made in error_examples.MADE.items())


def test_every_recorded_code_has_what_to_do() -> None:
    assert set(RECORDED) == {code for code, _ in recorded_rows()}, "say what to do about a new code in tests/docs/error_entries.py"


def test_no_name_is_without_words() -> None:
    page = PAGES["sdk.md"]()
    for name in (*OTHERS, *(name for names in GROUPS.values() for name in names)):
        part = page.partition(f"### {name}\n")[2].partition("\n### ")[0]
        assert len(part.split()) > 3, name
    assert "See `" not in page and "<" not in page.replace("<!--", "").replace("<=", "")


def test_the_tree_of_errors_names_each() -> None:
    drawn = inspect.getdoc(errors) or ""
    assert [kind.__name__ for kind in kinds() if kind.__name__ not in drawn] == []
