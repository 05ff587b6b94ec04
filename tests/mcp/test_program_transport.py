"""Claims about the log of what the programs of servers print: it is bounded, and a log that can't be written holds up no program."""

import asyncio
import logging
from pathlib import Path

import pytest

from perdure.mcp import program_transport
from perdure.mcp.program_transport import keep_log


def printed(*chunks: bytes) -> asyncio.StreamReader:
    """What a program has printed before it ended."""
    reader = asyncio.StreamReader()
    for chunk in chunks:
        reader.feed_data(chunk)
    reader.feed_eof()
    return reader


async def test_a_log_that_can_not_be_begun_anew_is_given_up_once_and_the_rest_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(program_transport, "LOG_BYTES_MAX", 100_000)
    (tmp_path / "raw.log.1" / "kept").mkdir(parents=True)
    reader = printed(*[b"x" * 65_536] * 4)
    with caplog.at_level(logging.WARNING, "perdure.mcp"):
        await keep_log(reader, tmp_path / "raw.log")
    assert reader.at_eof() and caplog.text.count("can't be kept") == 1
    assert (tmp_path / "raw.log").stat().st_size == 65_536


async def test_a_log_of_two_programs_is_begun_anew_by_one_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program_transport, "LOG_BYTES_MAX", 10)
    log, readers = tmp_path / "raw.log", (asyncio.StreamReader(), asyncio.StreamReader())
    keeping = [asyncio.create_task(keep_log(reader, log)) for reader in readers]
    for number, text in ((0, b"first "), (1, b"2nd "), (0, b"third "), (1, b"4th ")):
        readers[number].feed_data(text)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    for reader in readers:
        reader.feed_eof()
    await asyncio.gather(*keeping)
    assert ((tmp_path / "raw.log.1").read_bytes(), log.read_bytes()) == (b"first 2nd ", b"third 4th ")


async def test_what_can_not_be_kept_is_read_all_the_same(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "raw.log").mkdir()
    reader = printed(b"x" * 200_000)
    with caplog.at_level(logging.WARNING, "perdure.mcp"):
        await keep_log(reader, tmp_path / "raw.log")
    assert reader.at_eof() and caplog.text.count("can't be kept") == 1
