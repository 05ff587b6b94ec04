"""Claims about paths and keys: text reads back, and nothing that differs looks the same."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.paths import ROOT, Key, Path, QueueAddress, idempotency_key, parse_path, path_text

NASTY = st.sampled_from(["", "%", "/", "#", "~", "~0", "a#2", "a/b", "%2F", "..", " ", "\0", "ü", "🜁", "a%", "%%", ":"])
NAMES = st.text(alphabet=st.characters(codec="utf-8"), max_size=8) | NASTY | st.text("%/#~0a:", max_size=5)
SEGMENTS = st.tuples(NAMES, st.integers(1, 30)) | st.integers(0, 300)
PATHS = st.lists(SEGMENTS, max_size=5).map(tuple)
KEYS = st.builds(Key, NAMES, NAMES, NAMES)


@given(PATHS)
def test_the_text_of_a_path_reads_back_as_the_path(path: Path) -> None:
    assert parse_path(path_text(path)) == path


@given(st.text("ab%/#~0123", max_size=8) | NAMES)
def test_text_that_no_path_has_is_refused(shown: str) -> None:
    try:
        path = parse_path(shown)
    except ValueError:
        return
    assert path_text(path) == shown


@pytest.mark.parametrize("shown", ["/", "a/", "a//b", "a#1", "a#", "~", "~x#2", "~x#", "~01", "a#x", "%2f", "a#+2", "%zz"])
def test_text_not_written_by_text_is_an_error(shown: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_path(shown)


@given(PATHS, PATHS)
def test_no_two_paths_share_a_text(one: Path, other: Path) -> None:
    assert (path_text(one) == path_text(other)) == (one == other)


@given(KEYS, PATHS, KEYS, PATHS)
def test_no_two_operations_share_an_idempotency_key(key: Key, path: Path, other_key: Key, other: Path) -> None:
    assert (idempotency_key(key, path) == idempotency_key(other_key, other)) == ((key, path) == (other_key, other))


@given(KEYS, KEYS)
def test_no_two_keys_and_no_two_queues_share_a_text(one: Key, other: Key) -> None:
    assert (str(one) == str(other)) == (one == other)
    assert (str(QueueAddress(one.tenant, one.id)) == str(QueueAddress(other.tenant, other.id))) == ((one.tenant, one.id) == (other.tenant, other.id))


def test_paths_are_shown_as_people_read_them() -> None:
    assert path_text(ROOT) == ""
    assert path_text((("audit", 1), 3, ("charge", 2))) == "audit/~3/charge#2"
    assert path_text((("a/b", 1), ("", 1), ("50%", 1))) == "a%2Fb/%/50%25"
    assert str(Key("acme", "order", "a/1")) == "acme/order/a%2F1"
    assert idempotency_key(Key("acme", "order", "1"), (("pay", 2),)) == "acme/order/1:pay#2"
