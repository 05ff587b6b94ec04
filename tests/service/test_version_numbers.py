"""Claims about version numbers: they only rise, by the part that is asked for or by what the document declares."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.errors import BadValue
from perdure.definitions.graph.version_ranges import version_order
from perdure.service.version_numbers import VersionPart, is_version, next_version, raised

numbers = st.integers(0, 10**6)
versions = st.builds("{}.{}.{}".format, numbers, numbers, numbers)
parts = st.sampled_from(VersionPart.__args__)  # type: ignore[attr-defined]  # a Literal has its values there


@given(versions, parts)
def test_a_raised_version_is_above_and_nothing_of_fewer_parts_is_between(version: str, part: VersionPart) -> None:
    after = raised(version, part)
    assert is_version(after)
    assert version_order(after) > version_order(version)
    assert raised(version, part) == raised(f"{version}-rc.1+build", part)


@given(versions, st.just("") | versions, st.just("") | versions, st.none() | parts)
def test_the_next_version_is_above_the_highest_or_refused(highest: str, declared: str, before: str, part: VersionPart | None) -> None:
    lower = part is None and declared and declared != before and version_order(declared) <= version_order(highest)
    if lower:
        with pytest.raises(BadValue, match="is not above"):
            next_version(highest, declared, before, part)
    else:
        assert version_order(next_version(highest, declared, before, part)) > version_order(highest)


@pytest.mark.parametrize(("highest", "declared", "before", "part", "found"), [
    ("", "", "", None, "1.0.0"),
    ("", "0.3.0", "", None, "0.3.0"),
    ("1.2.3", "", "", None, "1.3.0"),
    ("1.2.3", "1.2.3", "1.2.3", None, "1.3.0"),
    ("1.2.3", "1.2.4", "1.2.3", None, "1.2.4"),
    ("1.2.3", "", "", "patch", "1.2.4"),
    ("1.2.3", "", "", "major", "2.0.0"),
    ("2.0.0-rc1", "2.0.0-rc2", "2.0.0-rc1", None, "2.0.0-rc2"),
    ("2.0.0-rc2", "2.0.0", "2.0.0-rc2", None, "2.0.0"),
])  # fmt: skip
def test_the_next_version(highest: str, declared: str, before: str, part: VersionPart | None, found: str) -> None:
    assert next_version(highest, declared, before, part) == found
