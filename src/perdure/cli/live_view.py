"""Watches executions: redraws a picture on a terminal, and prints a line for each event elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import click

from perdure.cli import execution_views, output
from perdure.cli.execution_lookup import known_programs
from perdure.cli.graph_commands import captions_of
from perdure.cli.plain_text import TextTable
from perdure.cli.shared_options import GlobalOptions
from perdure.cli.terminal import screen
from perdure.cli.terminal_text import error_message, execution_name
from perdure.core.errors import NotFound, PerdureError
from perdure.core.paths import Key
from perdure.runtime.execution_results import ENDED_STATUSES
from perdure.sync_client import Client, ExecutionStatus, Handle, ListedExecution, PublicEvent

FRAME_S = 0.25
"""The shortest time between two reads. Reading takes a fifth of the time at most."""

LAST_S = 5.0
"""The time limit of the final read."""

HEAD_ROWS = 4
"""The rows of a terminal that do not show steps."""

RESTING_STATUSES = {*ENDED_STATUSES, "needs_attention"}
"""The statuses in which an execution does not continue by itself."""

Poll = Callable[[], bool]
"""Reads once and shows the result; returns True if there is nothing more to come."""
CaptionSource = Callable[[ExecutionStatus], execution_views.DefinitionCaptions]
"""Returns the captions of the steps of a definition."""


def watch_execution(
    client: Client, handle: Handle[Any], stopped: threading.Event, captions_of: CaptionSource, format: str = "table", error: bool = False
) -> None:
    """Shows the progress of an execution until it has ended or needs attention, or once more after `stopped`; `captions_of` describes its steps."""
    shown = screen(sys.stderr if error else sys.stdout)
    if format != "table" or not shown.terminal:
        _repeat(_events(handle, output.item_printer(format, lambda event: event.id, lambda event: [execution_views.event_cells(event)], error)), stopped)
        return
    from perdure.cli import rich_text

    known_of: dict[str, execution_views.DefinitionCaptions] = {}

    def look() -> bool:
        status, now_s = handle.status(), time.time()
        told = known_of.setdefault(status.definition, known_of.get(status.definition) or captions_of(status))
        steps = execution_views.shortened_tree(execution_views.step_tree(handle.steps(), now_s, shown.unicode, told.captions), shown.rows - HEAD_ROWS)
        update(execution_views.execution_progress(status, known_programs(client), steps, now_s))
        return status.status in RESTING_STATUSES

    with rich_text.live(shown, error) as update:
        _repeat(look, stopped)


def _events(handle: Handle[Any], print_one: Callable[[PublicEvent], None]) -> Poll:
    last = 0

    def look() -> bool:
        nonlocal last
        is_still = handle.summary().status in RESTING_STATUSES  # read first, so that the events that follow include the one that led to it
        for event in handle.events(after=last):
            last = event.id
            print_one(event)
        return is_still

    return look


def watch_executions(client: Client, ask: Callable[[], Sequence[ListedExecution]], format: str) -> None:
    """Shows a list of executions until it is interrupted: redrawn on a terminal, elsewhere a line for each change of status."""
    shown = screen()

    def table(listed: Sequence[ListedExecution]) -> TextTable:
        return execution_views.execution_table(listed, known_programs(client), time.time())

    if format != "table" or not shown.terminal:
        _repeat(_status_changes(ask, output.item_printer(format, lambda one: execution_name(one.key), lambda one: table([one]).rows)), threading.Event())
        return
    from perdure.cli import rich_text

    def look() -> bool:
        update(table(ask()))
        return False

    with rich_text.live(shown) as update:
        _repeat(look, threading.Event())


def _status_changes(ask: Callable[[], Sequence[ListedExecution]], print_one: Callable[[ListedExecution], None]) -> Poll:
    before: dict[Key, str] = {}

    def look() -> bool:
        for one in reversed(ask()):
            if before.get(one.key) != one.status:
                print_one(one)
            before[one.key] = one.status
        return False

    return look


@contextmanager
def watch_in_background(settings: GlobalOptions, key: Key) -> Iterator[None]:
    """While the block runs, shows the progress of an execution on standard error, from a thread with its own client."""
    stop = threading.Event()

    def watch() -> None:
        try:
            with settings.client(creates=True) as client:
                if (handle := _started_handle(client, key, stop)) is not None:
                    watch_execution(client, handle, stop, partial(captions_of, handle), error=True)
        except PerdureError as error:
            click.echo(f"perdure: the execution can't be watched: {error_message(error)}", err=True)

    thread = threading.Thread(target=watch, name="perdure-watch", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(LAST_S)


def _started_handle(client: Client, key: Key, stop: threading.Event) -> Handle[Any] | None:
    """The handle of an execution that is about to be started; None after `stop`."""
    while True:
        is_last = stop.is_set()
        try:
            return client.get(key)
        except NotFound:
            if is_last:
                return None
            _ = stop.wait(0.05)


def _repeat(look: Poll, stopped: threading.Event) -> None:
    while True:
        is_last, began_s = stopped.is_set(), time.monotonic()
        if look() or is_last:
            return
        _ = stopped.wait(max(FRAME_S, 4 * (time.monotonic() - began_s)))
