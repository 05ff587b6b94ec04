"""The reference of the format says what its model says."""

from tests.docs.definitions import PAGE, page


def test_the_reference_of_the_format_is_that_of_its_model() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "python -m tests.docs.definitions writes it"
