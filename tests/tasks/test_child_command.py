"""What children write for people."""

import asyncio

from perdure.tasks.child_command import LINE_BYTES_MAX, forward_lines


async def test_output_for_people_is_forwarded_in_lines_and_cut_where_it_is_long() -> None:
    reader = asyncio.StreamReader()
    reader.feed_data(b"one\ntwo\r\n\xff\n" + b"x" * (3 * LINE_BYTES_MAX) + b"\nend")
    reader.feed_eof()
    lines = list[str]()
    await forward_lines(reader, lines.append)
    assert lines[:3] == ["one", "two", "\\xff"] and lines[-1] == "end"
    assert max(map(len, lines)) <= LINE_BYTES_MAX and sum(map(len, lines[3:-1])) >= LINE_BYTES_MAX
