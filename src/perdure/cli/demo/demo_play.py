"""The demo: an order in worker processes that are killed, told as it happens, and checked at its end."""

import os
import time
from contextlib import ExitStack, closing
from pathlib import Path
from secrets import token_hex

from perdure.cli.demo.demo_keys import Person, Plan
from perdure.cli.demo.order_story import BOLD, OrderStory, painted, say
from perdure.cli.demo.shop_processes import LEASE_S, DemoShop, ordered
from perdure.cli.demo.story_claims import StoryClaims
from perdure.stores.configured_store import shown_url

TAKES_S, TAKES_S_LIVE = 0.4, 1.5
"""How long a request of a step takes: long enough for a kill in the middle, also by hand."""

KEYS = "k kills the worker (kill -9)   a approves   r rejects   q quits"


def approved() -> Plan:
    """An approved order. Workers are killed after the bank has charged and before that is recorded, while the order waits, and while it ships."""
    return Plan(
        (lambda story: "done charge" in story.happened, "k"),
        (lambda story: "done remind" in story.happened and story.waits, "k"),
        (lambda story: len(story.shop.ready()) > 1, "a"),
        (lambda story: "asked ship" in story.happened, "k"),
    )


def rejected() -> Plan:
    """A rejected order: a worker is killed while the payment is refunded."""
    return Plan(
        (lambda story: "waiting" in story.happened and len(story.shop.ready()) > 1, "r"),
        (lambda story: "asked refund" in story.happened, "k"),
    )


def play(directory: Path, player: Person | Plan, url: str = "") -> list[str] | None:
    """Plays an order in a directory, or in the database at `url`; returns the claims that turned out false, or None if it was quit.

    In a database at a URL the order has an id of its own, so that it can be played there again. The one it is compared with is always in a file.

    Raises:
        DemoStuck: the order does not continue, or a worker has ended by itself.
    """
    began_s = time.monotonic()
    with ExitStack() as stack:
        takes_s = float(os.environ.get("ORDER_WORLD_TAKES_S", TAKES_S_LIVE if player.live else TAKES_S))
        shop = stack.enter_context(closing(DemoShop(directory / "shop", takes_s, url)))
        calm = stack.enter_context(closing(DemoShop(directory / "calm", 0)))
        id = f"1001-{token_hex(3)}" if url else "1001"
        claims = StoryClaims()
        _ = shop.hire(), shop.hire(), calm.hire()
        say("Two workers, each a process of its own, run an order: reserve the goods, charge the card, wait for the customer, ship.")
        if shop.on_server:
            say(f"They share {shown_url(url)}. A worker counts as dead when nothing was heard of it for {LEASE_S:g} s.")
        shop.until_ready(2)
        say(f"{painted(f'Order {id}', BOLD)}{f'   {KEYS}' if player.live else ''}\n")
        story = OrderStory(shop, ordered(shop, id), player)
        if not story.play():
            say("quit")
            return None
        say()
        claims.check(story, calm)
    if not player.live:
        say(f"\n{'All of it was true' if not claims.false else 'Not all of it was true'}; it took {time.monotonic() - began_s:.0f} s.")
    return claims.false
