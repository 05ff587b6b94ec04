"""The ticks of a loop, as seed 003 counts them."""

import pytest

from perdure.definitions.graph.graph_verbs import LoopBatch, first_batch
from tests.seeds.examples_003 import ITEMS, LOOP, ONE_BY_ONE


def ticks(items: object, size: int = 1) -> list[LoopBatch]:
    """All ticks over `items`, the last of which is done."""
    tick = first_batch(items, size)
    assert isinstance(tick, LoopBatch)
    found = [tick]
    while not found[-1].done:
        found.append(found[-1].next())
    return found


def test_the_sixth_tick_of_the_seed_s_example_is_as_it_says() -> None:
    sixth = ticks(ITEMS, 2)[5]
    assert sixth.port == "loop"
    assert sixth.variables == LOOP
    assert sixth.data == {"state": LOOP["state"], "batch": LOOP["batch"]}


def test_with_batches_of_one_item_and_index_are_there() -> None:
    assert ticks(ITEMS)[3].variables == ONE_BY_ONE
    assert "item" not in ticks(ITEMS)[-1].variables


def test_the_last_batch_may_be_smaller_and_then_it_is_done() -> None:
    found = ticks(["a", "b", "c", "d", "e"], 2)
    assert [tick.port for tick in found] == ["loop", "loop", "loop", "done"]
    assert found[2].data["batch"] == {"index": 2, "size": 1, "items": ["e"], "startIndex": 4, "endIndex": 4}
    assert found[3].data == {"state": {"currentIndex": 5, "totalItems": 5, "iterations": 3, "batchesProcessed": 3, "isComplete": True}, "batch": None}


@pytest.mark.parametrize("nothing", [[], None])
def test_without_items_it_is_done_at_once(nothing: object) -> None:
    (only,) = ticks(nothing)
    assert only.port == "done"
    assert only.data == {"state": {"currentIndex": 0, "totalItems": 0, "iterations": 0, "batchesProcessed": 0, "isComplete": True}, "batch": None}


@pytest.mark.parametrize(
    ("items", "size", "why"), [(5, 1, "loop needs a list, found 5"), ([1], 0, "from 1, found 0"), ([1], "2", "found 2"), ([1], True, "True")]
)
def test_what_can_t_be_looped_over_says_why(items: object, size: object, why: str) -> None:
    found = first_batch(items, size)
    assert isinstance(found, str)
    assert why in found
