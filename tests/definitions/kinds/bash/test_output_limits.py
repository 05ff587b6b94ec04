"""Streams: what is kept of an output, whatever it is and however it comes."""

import tracemalloc
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.definitions.kinds.bash.command_supervisor import KEPT_CHARACTERS, OutputCapture


def cut(raw: bytes, places: list[int]) -> list[bytes]:
    """Bytes in pieces."""
    ends = sorted({place % (len(raw) + 1) for place in places} | {0, len(raw)})
    return [raw[one:other] for one, other in pairwise(ends)]


@settings(deadline=None)
@given(st.binary(max_size=400) | st.text(max_size=200).map(str.encode), st.lists(st.integers(0, 400), max_size=12), st.integers(1, 60))
def test_however_it_is_cut_up_the_beginning_and_the_end_are_kept_and_the_rest_is_counted(raw: bytes, places: list[int], half: int) -> None:
    stream, whole = OutputCapture(2 * half), raw.decode("utf-8", "replace")
    for piece in cut(raw, places):
        stream.take(piece)
    stream.take(b"", final=True)
    assert stream.characters == len(whole)
    if len(whole) <= 2 * half:
        assert (stream.text, stream.left_out) == (whole, 0)
    else:
        assert stream.left_out == len(whole) - 2 * half
        assert stream.text == f"{whole[:half]}\n[... {stream.left_out:,} characters left out ...]\n{whole[-half:]}"


def test_endless_output_costs_the_same_memory_at_most() -> None:
    stream, chunk = OutputCapture(), "é".encode() * 32_768
    tracemalloc.start()
    for _ in range(200):
        stream.take(chunk)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 2_000_000
    assert stream.left_out == 200 * 32_768 - KEPT_CHARACTERS


def test_watchers_are_shown_a_few_lines_of_it() -> None:
    stream = OutputCapture(100)
    for number in range(1000):
        stream.take(f"line {number}\n".encode())
    assert stream.last.splitlines()[-2:] == ["line 998", "line 999"]
    assert len(stream.last) <= 500 and len(stream.last.splitlines()) <= 5
