"""The story of an order, told live: kill its worker with kill -9 whenever you like, and see it go on at the same step.

    python examples/demo.py             # k kills the worker, a and r are the customer's decision, q quits
    python examples/demo.py --auto      # plays itself, as it does without a terminal

The order is that of `examples/order.py`, and `examples/story.py` tells it. In the end it is held to what is promised, beside one that
nobody disturbed: if a claim is false, this says so and exits with 1.
"""

import os
import re
import select
import shutil
import signal
import sys
import tempfile
import termios
import time
import tty
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # a script has nothing but its own directory there

from examples.story import BOLD, TICK_S, Claims, Player, Shop, Story, Stuck, ordered, painted, say

TAKES_S, TAKES_S_LIVE = 0.5, 1.5
"""How long the world takes for a request: long enough for a kill in the middle, also for one by hand."""

SEQUENCE = re.compile(r"\x1b(\[[0-9;]*.|O?.)?")
"""What an arrow sends, or another key that is no letter."""

KEYS = "k kills the worker (kill -9)   a approves   r rejects   q quits"


# The keys.


class Person:
    """Somebody before a terminal that passes on each key at once."""

    live = True

    def __init__(self) -> None:
        self._pressed: list[str] = []

    def key(self, story: Story) -> str:
        """See `Player.key`. A terminal that goes away quits."""
        if not self._pressed and select.select([sys.stdin], [], [], TICK_S)[0]:
            with suppress(OSError):
                typed = os.read(sys.stdin.fileno(), 64).decode(errors="replace")
                self._pressed += SEQUENCE.sub("", typed).lower() if typed else "q"
        return self._pressed.pop(0) if self._pressed else ""


class Plan:
    """Keys, each with the moment at which it is to be pressed."""

    live = False

    def __init__(self, *keys: tuple[Callable[[Story], bool], str]) -> None:
        self._left = list(keys)

    def key(self, story: Story) -> str:
        """See `Player.key`."""
        time.sleep(TICK_S)
        return self._left.pop(0)[1] if self._left and self._left[0][0](story) else ""


@contextmanager
def keys_at_once() -> Iterator[None]:
    """Keys come without Enter, and unseen. Whatever happens, also while it is suspended, the terminal is as it was before."""
    before = termios.tcgetattr(sys.stdin)

    def restore() -> None:
        with suppress(termios.error):  # which says that it has gone away
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


# What is played.


def approved() -> Plan:
    """An approved order, killed at the worst moment of all (the bank has charged, and nobody knows), while it waits, and while it is shipped."""
    return Plan(
        (lambda story: "done charge" in story.happened, "k"),
        (lambda story: "done remind" in story.happened and story.waits, "k"),
        (lambda story: len(story.shop.ready()) > 1, "a"),
        (lambda story: "asked ship" in story.happened, "k"),
    )


def rejected() -> Plan:
    """A rejected one, killed while it gives back."""
    return Plan(
        (lambda story: "waiting" in story.happened and len(story.shop.ready()) > 1, "r"),
        (lambda story: "asked refund" in story.happened, "k"),
    )


def play(directory: Path, players: Sequence[Player]) -> list[str] | None:
    """Play an order for each player; return the claims that turned out false, or None if it was quit."""
    began_s = time.monotonic()
    live = players[0].live
    with ExitStack() as stack:
        takes_s = float(os.environ.get("ORDER_WORLD_TAKES_S", TAKES_S_LIVE if live else TAKES_S))
        shop, calm = [stack.enter_context(closing(Shop(directory / name, takes_s * times))) for name, times in (("shop", 1), ("calm", 0))]
        claims = Claims()
        _ = shop.hire(), shop.hire(), calm.hire()
        say("Two workers, each a process of its own, run orders: reserve the goods, charge the card, wait for the customer, ship.")
        shop.until_ready(2)
        for number, player in enumerate(players, 1001):
            say(f"{painted(f'Order {number}', BOLD)}{f'   {KEYS}' if live else ''}\n")
            story = Story(shop, ordered(shop, str(number)), player)
            if not story.play():
                say("quit")
                return None
            say()
            claims.check(story, calm)
            say()
    if not live:
        say(f"{'All of it was true' if not claims.false else 'Not all of it was true'}; it took {time.monotonic() - began_s:.0f} s.")
    return claims.false


def main(arguments: Sequence[str]) -> int:
    """0 if every claim was true, or if it was quit; 1 if one was false; 130 after Ctrl-C."""
    if list(arguments) not in ([], ["--auto"]):
        print("python examples/demo.py [--auto]", file=sys.stderr)
        return 2
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    live = not arguments and sys.stdin.isatty() and sys.stdout.isatty()
    directory = tempfile.mkdtemp(prefix="perdure-demo-")
    try:
        with keys_at_once() if live else ExitStack():
            false = play(Path(directory), [Person()] if live else [approved(), rejected()])
    except KeyboardInterrupt:
        return 130
    except Stuck as stuck:
        print(stuck, file=sys.stderr)
        return 1
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    return 1 if false else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
