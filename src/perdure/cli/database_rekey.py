"""Implements `db keys` and `db rekey`: lists the keys that encrypt a database, and encrypts all of it with the newest."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import click

from perdure.cli import terminal_text
from perdure.cli.exit_codes import CommandExit, ExitCode
from perdure.cli.plain_text import TextCell, TextTable, cell
from perdure.stores.configured_store import configured_codec
from perdure.stores.encryption import Encrypted
from perdure.stores.sqlite.rekey import KeyUse, RekeyResult, rekey

PROGRESS_S = 0.5
"""The time between two progress lines."""

REFUSED_SHOWN = 3


def key_table(uses: Sequence[KeyUse]) -> TextTable:
    """A row for each key, with how many payloads it encrypts."""
    return TextTable(("KEY", "LOG", "MESSAGES", "BLOBS"), tuple(map(_key_row, uses)))


def reencrypt(file: Path, vacuum: bool) -> str:
    """Encrypts all payloads with the newest key; returns a summary.

    Raises:
        CommandExit: there is no key, or some payloads could not be encrypted with it.
    """
    codec = configured_codec()
    if not isinstance(codec, Encrypted):
        raise CommandExit(
            ExitCode.INPUT,
            "PERDURE_ENCRYPTION_KEYS has no key to encrypt with\nperdure db key new makes one; the newest comes first: PERDURE_ENCRYPTION_KEYS=id:key,id:key",
        )
    done = rekey(file, codec, _progress_printer(), vacuum=vacuum)
    said = f"{terminal_text.count(done.done, 'payload')} encrypted under the key {codec.ids[0]}"
    if left := "\n".join(_remaining(done, codec.ids[0])):
        raise CommandExit(ExitCode.STORE, f"{said}, but the work is not complete\n{left}")
    return said


def _key_row(use: KeyUse) -> tuple[TextCell, ...]:
    name = TextCell("(none)", "warn") if use.key_id is None else cell(use.key_id, "strong")
    return (name, *(TextCell(f"{count:,}") for count in (use.log, use.messages, use.blob)))


def _remaining(done: RekeyResult, newest: str) -> Sequence[str]:
    if done.refused:
        return f"{terminal_text.count(len(done.refused), 'payload')} can't be read, and stay as they are:", *done.refused[:REFUSED_SHOWN]
    if done.left:
        left = f"{terminal_text.count(done.left, 'payload')} were written meanwhile with another key, or with none"
        return left, f"restart the engines and clients with {newest} as their first key, then run this again"
    if not done.wiped:
        return "the write-ahead log still has the old content, since a process reads it", "end processes that have been reading for long, then run this again"
    return ()


def _progress_printer() -> Callable[[str, int, int], None]:
    """Returns a function that prints progress to standard error, at most every `PROGRESS_S`."""
    printed_s = time.monotonic()

    def show(kind: str, seen: int, total: int) -> None:
        nonlocal printed_s
        if (now_s := time.monotonic()) - printed_s >= PROGRESS_S or seen == total:
            printed_s = now_s
            click.echo(f"{kind}: {seen:,} of {total:,}", err=True)

    return show
