"""Watching: on a terminal a picture that is drawn anew, elsewhere a line for each thing that happens."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import click

from perdure.cli import output, render_events, render_lists, render_steps
from perdure.cli.asking import known
from perdure.cli.complaints import complaint, name
from perdure.cli.graphing import told_of
from perdure.cli.render import Table
from perdure.cli.screen import screen
from perdure.cli.settings import Settings
from perdure.client import Client, Handle, Listed, PublicEvent, Status
from perdure.core.errors import NotFound, PerdureError
from perdure.core.paths import Key
from perdure.runtime.endings import ENDED

FRAME_S = 0.25
"""How often is looked, at most; looking may take a fifth of the time."""

LAST_S = 5.0
"""How long the last look may take, once there is nothing more to come."""

HEAD_ROWS = 4
"""How many rows of a terminal are not for steps."""

STILL = {*ENDED, "needs_attention"}
"""The statuses in which an execution does not go on by itself."""

Look = Callable[[], bool]
Telling = Callable[[Status], render_steps.Told]
"""Look once and show what is seen; True if there is nothing more to come."""


def execution(client: Client, handle: Handle[Any], stopped: threading.Event, telling: Telling, format: str = "table", error: bool = False) -> None:
    """Show how an execution goes on, until it has ended or needs somebody, or one more time after `stopped`; `telling` says what is told beside."""
    shown = screen(sys.stderr if error else sys.stdout)
    if format != "table" or not shown.terminal:
        _repeat(_events(handle, output.printer(format, lambda event: event.id, lambda event: [render_events.cells(event)], error)), stopped)
        return
    from perdure.cli import draw

    known_of: dict[str, render_steps.Told] = {}

    def look() -> bool:
        status, now_s = handle.status(), time.time()
        told = known_of.setdefault(status.definition, known_of.get(status.definition) or telling(status))
        steps = render_steps.shortened(render_steps.nodes(handle.steps(), now_s, shown.unicode, told.captions), shown.rows - HEAD_ROWS)
        update(render_lists.progress(status, known(client), steps, now_s))
        return status.status in STILL

    with draw.live(shown, error) as update:
        _repeat(look, stopped)


def _events(handle: Handle[Any], print_one: Callable[[PublicEvent], None]) -> Look:
    last = 0

    def look() -> bool:
        nonlocal last
        is_still = handle.summary().status in STILL  # asked first, so that what made it so is among the events
        for event in handle.events(after=last):
            last = event.id
            print_one(event)
        return is_still

    return look


def executions(client: Client, ask: Callable[[], Sequence[Listed]], format: str) -> None:
    """Show a list of executions for ever, anew on a terminal, elsewhere a line for each whose status is another than before."""
    shown = screen()

    def table(listed: Sequence[Listed]) -> Table:
        return render_lists.executions(listed, known(client), time.time())

    if format != "table" or not shown.terminal:
        _repeat(_changes(ask, output.printer(format, lambda one: name(one.key), lambda one: table([one]).rows)), threading.Event())
        return
    from perdure.cli import draw

    def look() -> bool:
        update(table(ask()))
        return False

    with draw.live(shown) as update:
        _repeat(look, threading.Event())


def _changes(ask: Callable[[], Sequence[Listed]], print_one: Callable[[Listed], None]) -> Look:
    before: dict[Key, str] = {}

    def look() -> bool:
        for one in reversed(ask()):
            if before.get(one.key) != one.status:
                print_one(one)
            before[one.key] = one.status
        return False

    return look


@contextmanager
def watching(settings: Settings, key: Key) -> Iterator[None]:
    """While the block does its work, show on standard error how an execution goes on, from a thread with a client of its own."""
    stop = threading.Event()

    def watch() -> None:
        try:
            with settings.client(creates=True) as client:
                if (handle := _awaited(client, key, stop)) is not None:
                    execution(client, handle, stop, partial(told_of, settings), error=True)
        except PerdureError as error:
            click.echo(f"perdure: it can't be watched: {complaint(error)}", err=True)

    thread = threading.Thread(target=watch, name="perdure-watch", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(LAST_S)


def _awaited(client: Client, key: Key, stop: threading.Event) -> Handle[Any] | None:
    """The execution, which is about to be started."""
    while True:
        is_last = stop.is_set()
        try:
            return client.get(key)
        except NotFound:
            if is_last:
                return None
            _ = stop.wait(0.05)


def _repeat(look: Look, stopped: threading.Event) -> None:
    while True:
        is_last, began_s = stopped.is_set(), time.monotonic()
        if look() or is_last:
            return
        _ = stopped.wait(max(FRAME_S, 4 * (time.monotonic() - began_s)))
