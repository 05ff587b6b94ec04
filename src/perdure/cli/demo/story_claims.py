"""The promises that an order is checked against at its end."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from perdure.cli.demo.order_story import GREEN, RED, OrderStory, painted, say
from perdure.cli.demo.shop_processes import STORY_S_MAX, DemoShop, ordered
from perdure.sync_client import Handle


class StoryClaims:
    """The claims about an order, and which of them turned out false."""

    def __init__(self) -> None:
        self.false: list[str] = []

    def claim(self, text: str, holds: bool) -> None:
        """Prints whether a claim holds."""
        say(f"   {painted('ok', GREEN) if holds else painted('NOT TRUE', RED)}  {text}")
        if not holds:
            self.false.append(text)

    def check(self, story: OrderStory, calm: DemoShop) -> None:
        """Checks an order that has ended, and compares it with one of the same id in a shop without kills."""
        lines = [line for line in story.shop.lines() if line["key"].startswith(f"{story.handle.key}:")]
        done = Counter(line["key"] for line in lines if line["event"] == "done")
        attempts = Counter(line["key"] for line in lines if line["event"] == "asked")
        again = f"{sum(count > 1 for count in attempts.values())} of them asked for more than once"
        self.claim(f"nothing was done twice: {done.total()} things were done, each under its own key, {again}", max(done.values()) == 1)
        recorded_s = {f"{story.handle.key}:{step.path}": step.settled_at_s for step in story.handle.steps() if step.settled_at_s}
        late = [line for line in lines if line["event"] == "asked" and line["at_s"] > recorded_s.get(line["key"], line["at_s"])]
        self.claim("nothing was asked for again once its answer was recorded", not late)
        if waits := {kill.what: kill.went_on_s for kill in story.kills if kill.key}:
            said = ", ".join(f"{what} {'never' if wait_s is None else f'after {wait_s:.2f} s'}" for what, wait_s in waits.items())
            self.claim(f"killed in the middle of a step, it continued: {said}", all(soon(kill.went_on_s, story.shop) for kill in story.kills if kill.key))
        if any(not kill.key for kill in story.kills) and story.taken_up_s is not None:
            self.claim(f"killed while it waited, it took up the decision after {story.taken_up_s:.2f} s", soon(story.taken_up_s, story.shop))
        self.claim("the steps and the result are those of an order without a kill", same(story, lines, calm))


def soon(wait_s: float | None, shop: DemoShop) -> bool:
    """Returns whether the wait was short enough."""
    return wait_s is not None and wait_s < shop.goes_on_s_max


def same(story: OrderStory, lines: Sequence[dict[str, Any]], calm: DemoShop) -> bool:
    """Returns whether the same order with the same decision has the same steps and result in the other shop. Reminders are not compared."""
    handle = ordered(calm, story.handle.id)
    handle.send("decision", {"approved": story.decision})
    result = handle.result(timeout=STORY_S_MAX)
    return result == story.handle.result() and done_of(calm.lines(), handle) == done_of(lines, handle)


def done_of(lines: Sequence[dict[str, Any]], handle: Handle[str]) -> list[tuple[str, str]]:
    """The steps of an order and their answers, in order, without reminders."""
    done = [line for line in lines if line["event"] == "done" and line["what"] != "remind"]
    return [(line["key"], line["answer"]) for line in done if line["key"].startswith(f"{handle.key}:")]
