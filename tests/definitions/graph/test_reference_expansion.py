"""References that multiply what they refer to: a step that would become too large fails with a named error, at once, and costs nothing else."""

import resource
import time
from typing import Any

import pytest

from perdure import Definition, ExecutionFailed
from perdure.testing import World
from tests.sampling import some

MILLION = 1_000_000


def definition(*steps: dict[str, Any], **more: Any) -> Definition:
    """A definition of these steps, one after the other."""
    return Definition.of({"perdure": 1, "name": "it", "order": "listed", "steps": list(steps), **more})


def chain(value: Any, count: int = 30) -> list[dict[str, Any]]:
    """Steps each of which refers to the one before as `value` says, where that stands as ``@last``."""

    def referring(one: Any, name: str) -> Any:
        match one:
            case str():
                return one.replace("last", name)
            case list():
                return [referring(inner, name) for inner in one]
        return one

    first = {"id": "s0", "set": {"x": "0123456789"}}
    return [first, *({"id": f"s{n}", "set": {"x": referring(value, f"s{n - 1}.x")}} for n in range(1, count))]


def failed(world: World, one: Definition, **given: Any) -> str:
    """How an execution fails, quickly and without much memory."""
    began_s, before_kib = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ExecutionFailed) as caught:
        world.run(one, **given)
    assert time.process_time() - began_s < 20 and resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib < 500_000
    return caught.value.error.message


@pytest.mark.slow
@pytest.mark.parametrize("value", some([["@last", "@last"], "@{last}@{last}", ["@last", ["@last", "@last"]], ["say @{last}", "@last"]], 1))
def test_a_chain_that_doubles_each_time_ends_with_a_clear_error(world: World, value: Any) -> None:
    assert "more than 500,000 values" in (told := failed(world, definition(*chain(value)))) or "16,777,216" in told


@pytest.mark.slow
def test_the_results_of_branches_are_no_more_than_one_value_may_be(world: World) -> None:
    branches = [{"id": f"b{n}", "set": {"x": "@input.text"}} for n in range(5)]
    told = failed(world, definition({"id": "all", "parallel": branches}), text="x" * 4 * MILLION)
    assert told.startswith("the results of the branches of all: the value takes 20,000,0") and "the limit is 16,777,216" in told


def test_the_results_of_items_are_no_more_than_one_value_may_be(world: World) -> None:
    each = {"id": "all", "each": {"in": [1, 2, 3, 4, 5]}, "do": [{"id": "one", "set": {"x": "@input.text"}}]}
    told = failed(world, definition(each), text="x" * 4 * MILLION)
    assert told.startswith("the results of the items of all: the value takes 20,000,0")
    assert "the limit is 16,777,216" in told
