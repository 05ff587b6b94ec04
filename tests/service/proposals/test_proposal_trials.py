"""Claims about trials of a document on what executions have recorded: what is the same, what differs and where, what is not known, and that nothing happens."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from perdure import step
from perdure.core import values
from perdure.core.errors import BadDefinition, BadValue, NotFound, StoreUnavailable
from perdure.core.paths import Key
from perdure.service import catalog
from perdure.service.catalog_changes import Edit
from perdure.service.definition_starts import catalog_start
from perdure.service.execution_operations import StartRequest, start_execution
from perdure.service.proposals.proposal_trials import ExecutionTrial, TrialReport, TrialStop, TrialWish, ValueDifference, try_document
from perdure.service.proposals.recorded_answers import RecordedAnswers
from perdure.service.store_access import StoreAccess
from perdure.stores.protocol import HeadFilter
from perdure.sync_client import AsyncClient
from tests.runtime.cluster import Cluster
from tests.service.cluster_client import virtually
from tests.service.hosts import host

T = "acme"
CALLED = list[Any]()


@step(idempotent=True)
async def price(item: str, n: int = 1) -> int:
    CALLED.append((item, n))
    await asyncio.sleep(5)
    if item == "broken":
        raise ValueError("no such item")
    return len(item) * n


@step(idempotent=True)
async def ship(cents: int, to: str = "home") -> str:
    CALLED.append(("ship", cents))
    return f"{cents} to {to}"


ORDER = """
perdure: 1
name: order
input: {item: {type: string}}
steps:
  - {id: price, tool: price, with: {item: "@input.item"}, retry: {max: 1}}
  - {id: total, set: {cents: "@price"}}
  - {id: ship, tool: ship, with: {cents: "@total.cents"}}
vars: {cents: 0}
output: "@ship"
"""


async def recorded(
    c: Cluster, document: str, *inputs: dict[str, Any], status: str = "completed", meanwhile: Callable[..., Awaitable[None]] | None = None
) -> StoreAccess:
    """A store with an execution of the document for each input, which have ended."""
    access = StoreAccess(c.store)
    made = await catalog.create_definition(access, T, document.encode(), Edit("ada"))
    _ = await c.engine(*host(price, ship))
    for number, given in enumerate(inputs):
        request = StartRequest(key=Key(T, "", f"e{number}"), input=values.encode(((), given), "the input"))
        key, _ = await start_execution(access, *await catalog_start(access, request, made.slug))
        if meanwhile is not None:
            await meanwhile(access, key)
        wait_s = 1.0
        while (head := await access.head(key)).status not in ("completed", "failed"):
            await asyncio.sleep(wait_s)  # in virtual time
            wait_s *= 2
        assert head.status == status
    CALLED.clear()
    return access


async def tried(access: StoreAccess, document: str, **how: Any) -> TrialReport:
    """The trial of a document, after which the store is as it was and no step was called."""
    before = await access.store.heads(HeadFilter(tenant=T, limit=1_000)), len(await access.store.messages(Key(T, "order", "e0")))
    report = await try_document(access, T, "order", document.encode(), TrialWish(**how))
    assert (await access.store.heads(HeadFilter(tenant=T, limit=1_000)), len(await access.store.messages(Key(T, "order", "e0")))) == before
    assert CALLED == []
    return report


async def tried_on_one(access: StoreAccess, document: str, **how: Any) -> ExecutionTrial:
    (one,) = (await tried(access, document, **how)).items
    return one


@virtually
async def test_a_document_of_the_same_meaning_goes_the_same_way_and_no_step_is_called(c: Cluster, client: AsyncClient) -> None:
    access = await recorded(c, ORDER, {"item": "pen"}, {"item": "book"})
    report = await tried(access, ORDER.replace("name: order", "name: order\ndescription: other"))
    assert (report.same, report.differing, report.unknown) == (2, 0, 0)
    assert [one.key.id for one in report.items] == ["e1", "e0"]
    assert (await tried(access, ORDER, last=1)).items[0].key.id == "e1"


@virtually
async def test_a_result_that_differs_is_shown_with_the_step_and_what_came_of_it(c: Cluster, client: AsyncClient) -> None:
    access = await recorded(c, ORDER, {"item": "pen"})
    one = await tried_on_one(access, ORDER.replace('output: "@ship"', 'output: {shipped: "@ship"}'))
    assert (one.verdict, one.results, one.result) == ("differs", {}, ValueDifference("3 to home", {"shipped": "3 to home"}))
    assert (one.not_run, one.also_run, one.status) == ((), (), None)


@virtually
async def test_a_step_whose_input_differs_has_no_result_and_what_follows_is_unknown_unless_a_value_is_given(c: Cluster, client: AsyncClient) -> None:
    access = await recorded(c, ORDER, {"item": "pen"})
    changed = ORDER.replace('{cents: "@price"}', "{cents: 7}")
    one = await tried_on_one(access, changed)
    assert (one.verdict, one.unknown_from, one.why) == ("unknown", "ship", "its input differs from what was recorded")
    assert one.results == {"total": ValueDifference({"cents": 3}, {"cents": 7})}
    one = await tried_on_one(access, changed, mocks={"ship": "7 to home"})
    assert (one.verdict, one.result) == ("differs", ValueDifference("3 to home", "7 to home"))


@virtually
async def test_a_trial_up_to_a_step_tells_the_results_of_then_and_whether_the_step_was_reached(c: Cluster, client: AsyncClient) -> None:
    access = await recorded(c, ORDER, {"item": "pen"}, {"item": "book"})
    one = await tried_on_one(access, ORDER, executions=["e0"], until="total")
    assert one.key.id == "e0" and one.stop is not None and one.stop.reached
    assert one.stop.results == {"price": 3, "total": {"cents": 3}}
    changed = ORDER.replace('set: {cents: "@price"}', "needs: [price], set: {cents: 7}")
    one = await tried_on_one(access, changed, executions=["e1"], until="total")
    assert one.stop == TrialStop(step="total", reached=True, results={"price": 4, "total": {"cents": 7}})
    one = await tried_on_one(access, changed, executions=["e1"], until="ship")
    assert one.stop == TrialStop(step="ship", reached=False, results={"price": 4, "total": {"cents": 7}})
    assert one.unknown_from == "ship"
    with pytest.raises(BadValue, match="until"):
        await tried(access, ORDER, until="none")
    with pytest.raises(NotFound, match="has no execution"):
        await tried(access, ORDER, executions=["none"])


@virtually
async def test_a_step_that_is_new_left_out_or_renamed_is_named(c: Cluster, client: AsyncClient) -> None:
    access = await recorded(c, ORDER, {"item": "pen"})
    more = ORDER.replace("vars:", '  - {id: again, tool: price, with: {item: "@ship"}}\nvars:')
    one = await tried_on_one(access, more)
    assert (one.verdict, one.unknown_from, one.why) == ("unknown", "again", "it has no recorded result")
    one = await tried_on_one(access, more, mocks={"again": 1})
    assert (one.verdict, one.also_run, one.not_run, one.result) == ("differs", ("again",), (), None)
    one = await tried_on_one(access, more.replace("{id: again,", '{id: again, when: "@vars.no",').replace("cents: 0", "cents: 0, no: false"))
    assert (one.verdict, one.also_run) == ("same", ())
    less = "\n".join(line for line in ORDER.splitlines() if "id: ship" not in line).replace("@ship", "@total.cents")
    one = await tried_on_one(access, less)
    assert (one.verdict, one.not_run, one.result) == ("differs", ("ship",), ValueDifference("3 to home", 3))
    one = await tried_on_one(access, ORDER.replace("id: ship", "id: send").replace("@ship", "@send"))
    assert (one.verdict, one.unknown_from) == ("unknown", "send")


@virtually
async def test_a_recorded_failure_fails_again_unless_it_would_be_tried_again(c: Cluster, client: AsyncClient) -> None:
    access = await recorded(c, ORDER, {"item": "broken"}, status="failed")
    assert (await tried_on_one(access, ORDER)).verdict == "same"
    one = await tried_on_one(access, ORDER.replace("retry: {max: 1}", "retry: {max: 3}"))
    assert (one.verdict, one.unknown_from) == ("unknown", "price")
    assert "retried in another way" in one.why
    caught = ORDER.replace("retry: {max: 1}}", "retry: {max: 1}, on_error: go_on}").replace('"@price"', "1")
    one = await tried_on_one(access, caught, mocks={"ship": "1 to home"})
    assert (one.verdict, one.status, one.also_run) == ("differs", ValueDifference("failed", "completed"), ("ship", "total"))


@virtually
async def test_a_shorter_timeout_than_a_step_took_makes_it_unknown_and_a_longer_one_does_not(c: Cluster, client: AsyncClient) -> None:
    access = await recorded(c, ORDER.replace("retry: {max: 1}", "retry: {max: 1}, timeout: 10s"), {"item": "pen"})
    one = await tried_on_one(access, ORDER.replace("retry: {max: 1}", "retry: {max: 1}, timeout: 2s"))
    assert (one.verdict, one.unknown_from, one.why) == ("unknown", "price", "it took 5 s when it was recorded, and has 2 s now")
    assert (await tried_on_one(access, ORDER.replace("retry: {max: 1}", "retry: {max: 1}, timeout: 6s"))).verdict == "same"


@virtually
async def test_an_input_that_the_document_does_not_take_fails_the_execution(c: Cluster, client: AsyncClient) -> None:
    access = await recorded(c, ORDER, {"item": "pen"})
    one = await tried_on_one(access, ORDER.replace("type: string", "type: integer"))
    assert (one.verdict, one.status) == ("differs", ValueDifference("completed", "failed"))


LOOP = """
perdure: 1
name: order
input: {items: {type: array}}
steps:
  - {id: prices, each: {in: "@input.items"}, tool: price, with: {item: "@item"}}
  - {id: rest, sleep: 15m}
output: "@prices"
"""


@virtually
async def test_items_have_their_own_results_in_whatever_order_they_come_and_sleeps_take_no_time(c: Cluster, client: AsyncClient) -> None:
    access = await recorded(c, LOOP, {"items": ["a", "bb", "ccc"]})
    assert (await tried_on_one(access, LOOP)).verdict == "same"
    one = await tried_on_one(access, LOOP.replace('each: {in: "@input.items"}', 'each: {in: ["ccc", "a"]}'))
    assert (one.verdict, one.result) == ("differs", ValueDifference([1, 2, 3], [3, 1]))
    one = await tried_on_one(access, LOOP.replace('each: {in: "@input.items"}', 'each: {in: ["ccc", "a", "a"]}'))
    assert (one.verdict, one.unknown_from) == ("unknown", "prices")


RACE = """
perdure: 1
name: order
steps:
  - id: first
    race:
      - {id: slow, tool: price, with: {item: slow}}
      - {id: fast, sleep: 2s}
output: "@first.winner"
"""


@virtually
async def test_the_winner_of_a_race_wins_again_and_the_loser_has_no_result(c: Cluster, client: AsyncClient) -> None:
    access = await recorded(c, RACE, {})
    assert (await tried_on_one(access, RACE)).verdict == "same"
    one = await tried_on_one(access, RACE.replace("sleep: 2s", "sleep: 10s"))
    assert (one.verdict, one.unknown_from, one.why) == ("unknown", "slow", "the recorded execution did not wait for its result")
    assert (await tried_on_one(access, RACE.replace("sleep: 2s", "sleep: 1s"))).verdict == "same"


GATE = """
perdure: 1
name: order
steps:
  - {id: gate, approve: {title: "Ship it?"}}
  - {id: word, listen: word, needs: [gate]}
output: {by: "@gate.by", word: "@word"}
"""


@virtually
async def test_approvals_and_messages_are_those_of_then(c: Cluster, client: AsyncClient) -> None:
    async def decided(access: StoreAccess, key: Key) -> None:
        async with asyncio.timeout(100):
            while not (waiting := await client.approvals(tenant=T)):
                await asyncio.sleep(1)
        await client.approve(waiting[0], by="eve", tenant=T)
        await asyncio.sleep(20)
        await (await client.get(key.id, workflow="order", tenant=T)).send("word", "hello")

    access = await recorded(c, GATE, {}, meanwhile=decided)
    assert (await tried_on_one(access, GATE)).verdict == "same"
    assert (await tried_on_one(access, GATE.replace("Ship it?", "Really?"))).verdict == "same", "the same step is answered, whatever it asks"
    more = GATE.replace("output:", "  - {id: other, listen: other, needs: [word]}\noutput:")
    one = await tried_on_one(access, more)
    assert (one.verdict, one.unknown_from, one.why) == ("unknown", "other", "it waits for a message that was not recorded")
    assert (await tried_on_one(access, more, mocks={"other": "x"})).also_run == ("other",)
    second = GATE.replace("output:", "  - {id: second, approve: {title: Sure}, needs: [word]}\noutput:")
    assert (await tried_on_one(access, second)).unknown_from == "second"
    assert (await tried_on_one(access, second, mocks={"second": True})).also_run == ("second",)
    assert (await tried_on_one(access, second, mocks={"second": False})).status == ValueDifference("completed", "cancelled")


CHILD = """
perdure: 1
name: order
input: {item: {type: string}}
steps: [{id: sub, call: part, with: {item: "@input.item"}}]
output: "@sub"
"""
PART = """
perdure: 1
name: part
input: {item: {type: string}}
steps: [{id: price, tool: price, with: {item: "@input.item"}}]
output: "@price"
"""


@virtually
async def test_a_child_has_its_recorded_result_also_when_its_definition_has_changed(c: Cluster, client: AsyncClient) -> None:
    _ = await catalog.create_definition(StoreAccess(c.store), T, PART.encode(), Edit("ada"))
    access = await recorded(c, CHILD, {"item": "pen"})
    _ = await catalog.update_definition(access, T, "part", Edit("ada"), PART.replace('output: "@price"', "output: 1").encode())
    assert (await tried_on_one(access, CHILD)).verdict == "same"
    one = await tried_on_one(access, CHILD.replace('"@input.item"}}]', '"other"}}]'))
    assert (one.verdict, one.unknown_from) == ("unknown", "sub")


@pytest.mark.parametrize(
    "step",
    [
        '{id: mark, bash: "echo done > MARK"}',
        '{id: mark, file: {write: "mark", content: "done"}}',
        '{id: mark, http: {url: "http://127.0.0.1:9/", method: POST}}',
        "{id: mark, tool: ship, with: {cents: 1}}",
        "{id: mark, emit: {to: {workflow: order, id: e0}, name: word, body: x}}",
        '{id: mark, call: "order", with: {item: x}}',
        "{id: mark, task: {type: ship, queue: work}}",
        '{id: mark, ts: "export default () => 1"}',
    ],
)
def test_no_step_of_a_tried_document_touches_the_world(step: str, tmp_path: Path) -> None:
    @virtually
    async def inside(c: Cluster, client: AsyncClient) -> None:
        access = await recorded(c, ORDER, {"item": "pen"})
        document = ORDER.replace("vars:", f"  - {step.replace('MARK', str(tmp_path / 'mark'))}\nvars:")
        one = await tried_on_one(access, document)
        assert one.verdict == ("differs" if "emit" in step else "unknown")
        mocked = await tried_on_one(access, document, mocks={"mark": 1})
        assert mocked.also_run == ("mark",)

    inside()
    assert list(tmp_path.iterdir()) == []


@virtually
async def test_what_can_not_be_tried_is_refused(c: Cluster, client: AsyncClient) -> None:
    access = await recorded(c, ORDER, {"item": "pen"})
    with pytest.raises(BadDefinition):
        await tried(access, ORDER.replace("tool: ship", "tol: ship"))
    with pytest.raises(BadValue, match="mocks"):
        await tried(access, ORDER, mocks={"nothing": 1})
    for last in (0, 101, True):
        with pytest.raises(BadValue):
            await tried(access, ORDER, last=last)


@virtually
async def test_a_store_that_is_unavailable_during_a_trial_is_no_outcome_of_it(c: Cluster, client: AsyncClient) -> None:
    access = await recorded(c, ORDER, {"item": "pen"})

    async def unavailable(*_: Any) -> Any:
        raise StoreUnavailable("the connection was lost")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(RecordedAnswers, "take", unavailable)
        with pytest.raises(StoreUnavailable, match="the connection was lost"):
            await tried(access, ORDER)


@pytest.mark.slow
@virtually
async def test_a_document_without_an_end_is_tried_up_to_a_limit(c: Cluster, client: AsyncClient) -> None:
    access = await recorded(c, ORDER, {"item": "pen"})
    endless = ORDER.replace("vars:", '  - {id: rest, repeat: {until: "@vars.no", endless: true}, sleep: 1s}\nvars:').replace("cents: 0", "cents: 0, no: false")
    one = await tried_on_one(access, endless)
    assert (one.verdict, "takes more than" in one.why) == ("unknown", True), one


def many_steps(count: int) -> str:
    steps = "\n".join(f'  - {{id: s{number}, tool: price, with: {{item: "@input.item", n: {number}}}}}' for number in range(count))
    return f'perdure: 1\nname: order\norder: listed\ninput: {{item: {{type: string}}}}\nsteps:\n{steps}\noutput: "@s{count - 1}"\n'


@pytest.mark.prove
@virtually
async def test_ten_executions_of_twenty_steps_are_tried_in_less_than_a_second(c: Cluster, client: AsyncClient) -> None:
    document = many_steps(20)
    access = await recorded(c, document, *({"item": str(number)} for number in range(10)))
    _ = await tried(access, document, last=1)
    began_s = time.perf_counter()
    report = await tried(access, document)
    took_s = time.perf_counter() - began_s
    assert report.same == 10
    assert took_s < 1.0, took_s
