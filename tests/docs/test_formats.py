"""The page of stored names is that of the code, and its tables name exactly what the code has."""

import pytest

from tests.docs.formats import CHECKED, PAGE, page


@pytest.mark.slow
@pytest.mark.parametrize("name", CHECKED)
def test_a_table_names_what_is_in_the_code(name: str) -> None:
    said, found = set(CHECKED[name][0]), CHECKED[name][1]()
    assert said == found, f"tests/docs/formats.py, {name}: add {sorted(found - said)}, remove {sorted(said - found)}; these names are stored or sent for good"


def test_the_page_is_that_of_the_code() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), (
        "docs/reference/formats.md is out of date: python -m tests.docs.formats. These names are stored or sent for good"
    )
