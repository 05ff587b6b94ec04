"""The players of the demo: a person at a terminal, or a plan of keys."""

import os
import re
import select
import signal
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from perdure.cli.demo.order_story import OrderStory
from perdure.cli.demo.shop_processes import TICK_S

SEQUENCE = re.compile(r"\x1b(\[[0-9;]*.|O?.)?")
"""The characters of an arrow key, or of another key that is no letter."""


class Person:
    """A person at a terminal that passes on each key at once."""

    live = True

    def __init__(self) -> None:
        self._pressed: list[str] = []

    def key(self, story: OrderStory) -> str:
        """See `DemoPlayer.key`. A terminal that goes away quits."""
        if not self._pressed and select.select([sys.stdin], [], [], TICK_S)[0]:
            with suppress(OSError):
                typed = os.read(sys.stdin.fileno(), 64).decode(errors="replace")
                self._pressed += SEQUENCE.sub("", typed).lower() if typed else "q"
        return self._pressed.pop(0) if self._pressed else ""


class Plan:
    """A list of keys, each with the condition under which it is pressed."""

    live = False

    def __init__(self, *keys: tuple[Callable[[OrderStory], bool], str]) -> None:
        self._left = list(keys)

    def key(self, story: OrderStory) -> str:
        """See `DemoPlayer.key`."""
        time.sleep(TICK_S)
        return self._left.pop(0)[1] if self._left and self._left[0][0](story) else ""


@contextmanager
def keys_at_once() -> Iterator[None]:
    """Has the terminal pass on keys without Enter and without showing them. At the end, and while the process is suspended, it is as it was before."""
    before = termios.tcgetattr(sys.stdin)

    def restore() -> None:
        with suppress(termios.error):  # the terminal has gone away
            termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)

    def suspend(*_: object) -> None:
        restore()
        os.kill(os.getpid(), signal.SIGSTOP)
        tty.setcbreak(sys.stdin)

    try:
        tty.setcbreak(sys.stdin)
        signal.signal(signal.SIGTSTP, suspend)
        yield
    finally:
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        restore()
