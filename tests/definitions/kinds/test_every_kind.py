"""What holds for every kind of steps: its work, tries, time, undo, what stands around it, policies, limits, values of all sizes, and that it leaves nothing."""

import asyncio
import os
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perdure import BadDefinition, Definition, ExecutionCancelled, ExecutionFailed
from perdure.async_handle import AsyncHandle
from perdure.core.views import StepView
from perdure.definitions.format.model import verbs_by_name
from perdure.definitions.kinds.pipeline.pipeline_runner import OPERATIONS
from perdure.stores.memory import MemoryStore
from tests.definitions.kinds.config_shapes import ANYTHING, configs
from tests.definitions.kinds.kind_table import KINDS, KindEnvironment, KindRow, working

pytestmark = pytest.mark.slow

pytest.importorskip("httpx2", reason="requests take the package httpx2: pip install 'perdure[http]'")
pytest.importorskip("pydantic_ai", reason="models take the package pydantic-ai-slim: pip install 'perdure[agents]'")
pytest.importorskip("quickjs", reason="sandboxes take their packages: pip install 'perdure[sandbox]'")

QUICK = {"wait": "1ms", "max": 3}
WAIT_S = 20.0
STILL_S = 0.1
TICKS_MAX = 2
"""How much processor time, in hundredths of a second, what waits for work may take meanwhile."""
LOOKS_MAX = 50

every_kind = pytest.mark.parametrize("row", KINDS.values(), ids=KINDS)
of_a_kind = pytest.mark.parametrize("row", [row for row in KINDS.values() if row.is_kind], ids=[row.kind for row in KINDS.values() if row.is_kind])


async def run(definition: Definition, **given: Any) -> Any:
    """The result of one execution."""
    store = MemoryStore()
    async with working(store, definition) as client:
        return await client.run(definition, **given)


async def ended(definition: Definition, **given: Any) -> tuple[Any, AsyncHandle[Any], list[StepView]]:
    """How one execution has ended, its handle, and its steps."""
    async with working(MemoryStore(), definition) as client:
        handle = await client.start(definition.with_(id="x"), **given)
        how: Any = (await asyncio.gather(handle.result(WAIT_S), return_exceptions=True))[0]
        return how, handle, await handle.steps()


def tries(steps: list[StepView], path: str = "a") -> int:
    """How often a step was tried."""
    return max(step.attempt for step in steps if step.path.split("#")[0] == path)


async def until(what: Callable[[], Any], claim: str) -> None:
    """Wait until something holds."""
    ends_s = time.monotonic() + WAIT_S
    while not what():
        assert time.monotonic() < ends_s, f"it never came to this: {claim}"
        await asyncio.sleep(0.01)


def below(pid: int) -> set[int]:
    """The processes below one."""
    try:
        own = {int(child) for task in Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()}
    except OSError:  # it has ended
        return set()
    return own.union(*map(below, own))


def ticks(processes: set[int]) -> int:
    """The processor time that processes have taken, in hundredths of a second; 0 for those that have ended."""
    found = 0
    for pid in processes:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        found += int(fields[11]) + int(fields[12])
    return found


def is_slow(pid: int) -> bool:
    """Whether a process is one of a command that was to take long."""
    try:
        return "sleep 1000" in Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return False


async def nothing_is_left(place: KindEnvironment) -> None:
    """No request is being answered, no command lives, and no sandbox computes."""
    await until(lambda: place.server.busy == 0, "no request waits")
    if sys.platform == "linux":
        await until(lambda: not any(map(is_slow, below(os.getpid()))), "no command lives")
        for _ in range(LOOKS_MAX):  # one that gets ready for the next step takes its time on a busy machine
            sandboxes = below(os.getpid())
            before = ticks(sandboxes)
            await asyncio.sleep(STILL_S)
            if ticks(sandboxes) - before <= TICKS_MAX:
                return
        raise AssertionError("a sandbox still computes")


@every_kind
@pytest.mark.parametrize("value", ["a", "ünï 𝄞 \u2028 'q' \"d\" $x `y` {{z}} \\", "x" * 50_000, pytest.param("é" * 1_200_000, marks=pytest.mark.prove)])
async def test_it_does_its_work_with_texts_of_all_kinds(row: KindRow, place: KindEnvironment, value: str) -> None:
    if len(value) <= row.characters_max:
        result = await run(place.definition({"id": "a", **row.echo(place)}), value=value)
        assert row.value_of(result) == value


@every_kind
async def test_it_is_tried_as_often_as_the_step_says_and_fails_in_the_end(row: KindRow, place: KindEnvironment) -> None:
    how, _, steps = await ended(place.definition({"id": "a", **row.broken(place), "retry": QUICK}))
    assert isinstance(how, ExecutionFailed) and max(tries(steps), sum(seen.path != "/openapi.json" for seen in place.server.seen)) == row.tries


@every_kind
async def test_its_time_ends_it_and_nothing_of_it_is_left(row: KindRow, place: KindEnvironment) -> None:
    began_s = time.monotonic()
    how, _, _ = await ended(place.definition({"id": "a", **row.slow(place), "timeout": 1, "retry": {"max": 1}}))
    assert isinstance(how, ExecutionFailed) and time.monotonic() - began_s < WAIT_S / 2
    await nothing_is_left(place)


@every_kind
async def test_who_cancels_an_execution_in_the_middle_of_it_leaves_nothing_of_it(row: KindRow, place: KindEnvironment) -> None:
    definition = place.definition({"id": "a", **row.slow(place), "grace": "200ms"})
    async with working(MemoryStore(), definition) as client:
        handle = await client.start(definition.with_(id="x"))
        await until_performing(handle)
        await asyncio.sleep(0.2)
        await handle.cancel("nobody wants it")
        with pytest.raises(ExecutionCancelled):
            await handle.result(WAIT_S)
        await nothing_is_left(place)


async def until_performing(handle: AsyncHandle[Any]) -> None:
    """Wait until a step is being done."""
    while not any(step.state in ("performing", "waiting") for step in await handle.steps()):
        await asyncio.sleep(0.01)


@every_kind
async def test_what_it_did_is_undone_when_the_execution_fails_later(row: KindRow, place: KindEnvironment) -> None:
    undo = {"tool": "undone", "with": {"what": "@self"}}
    it = place.definition({"id": "a", **row.echo(place), "undo": undo}, {"id": "b", "needs": ["a"], "fail": "no"})
    how, _, _ = await ended(it, value="to be undone")
    assert isinstance(how, ExecutionFailed)
    ((what,),) = place.undone
    assert row.value_of(what) == "to be undone"


@every_kind
async def test_its_failure_comes_to_what_the_step_says(row: KindRow, place: KindEnvironment) -> None:
    broken = {"id": "a", **row.broken(place), "retry": {"max": 1}}
    instead = place.definition({**broken, "on_error": [{"id": "instead", "set": {"x": 1}}]}, {"id": "b", "return": "went on"})
    assert await run(instead) == "went on"
    assert await run(place.definition({**broken, "on_error": "go_on"}, {"id": "b", "return": "went on"})) == "went on"


@every_kind
async def test_it_is_done_for_each_of_a_list_some_at_a_time_and_in_order(row: KindRow, place: KindEnvironment) -> None:
    found = await run(place.definition({"id": "a", **row.echo(place), "each": {"in": list(range(5)), "concurrency": 2}}), value="one")
    assert [row.value_of(one) for one in found] == ["one"] * 5


@every_kind
async def test_it_is_done_again_and_again(row: KindRow, place: KindEnvironment) -> None:
    turns = {"until": {"ref": "@index", "gte": 2}, "max": 5}
    _, _, steps = await ended(place.definition({"id": "a", **row.echo(place), "repeat": turns}))
    assert sum("/" in step.path or step.path.startswith("a") for step in steps) >= 3


@every_kind
async def test_its_result_is_held_against_the_schema_of_the_step(row: KindRow, place: KindEnvironment) -> None:
    how, _, _ = await ended(place.definition({"id": "a", **row.echo(place), "schema": {"type": "boolean"}, "retry": {"max": 1}}))
    assert isinstance(how, ExecutionFailed) and "boolean" in str(how)


@pytest.mark.parametrize("row", [row for row in KINDS.values() if row.has_value], ids=[row.kind for row in KINDS.values() if row.has_value])
async def test_its_result_counts_for_the_limit_of_bytes(row: KindRow, place: KindEnvironment) -> None:
    how, _, _ = await ended(place.definition({"id": "a", **row.echo(place)}, limits={"max_bytes": 1_000}), value="x" * 2_000)
    assert isinstance(how, ExecutionFailed) and "exceeded_max_bytes" in f"{how!r} {how}"


@every_kind
async def test_what_a_policy_denies_is_not_done(row: KindRow, place: KindEnvironment) -> None:
    denied = {"rules": [{"on": "tool", "when": f"kind == '{row.kind}'", "deny": "not here"}]}
    how, _, _ = await ended(place.definition({"id": "a", **row.echo(place)}, policy=denied))
    assert isinstance(how, ExecutionFailed) and "not here" in str(how)
    nowhere = {"capabilities": [{"kind": row.kind, "can_emit_to": []}]}
    how, _, _ = await ended(place.definition({"id": "a", **row.echo(place), "next": "b"}, {"id": "b", "set": {}}, policy=nowhere, order="ports"))
    assert isinstance(how, ExecutionFailed) and "unauthorized" in str(how)


@every_kind
@pytest.mark.parametrize(
    "said", [{"rules": [{"on": "tool", "when": "step == 'a'", "ask": "shall it?"}]}, {"capabilities": [{"step": "a", "requires_approval": True}]}]
)
async def test_where_a_policy_says_so_a_person_is_asked_first(row: KindRow, place: KindEnvironment, said: Any) -> None:
    definition = place.definition({"id": "a", **row.echo(place)}, policy=said)
    async with working(MemoryStore(), definition) as client:
        handle = await client.start(definition.with_(id="x"), value="asked")
        while not (waiting := await client.approvals()):
            await asyncio.sleep(0.01)
        assert place.server.seen == [] and not (place.directory / "work").exists(), "nothing was done before"
        await client.approve(waiting[0], by="ada")
        assert row.value_of(await handle.result(WAIT_S)) == "asked"


@every_kind
async def test_a_failed_one_is_a_dead_letter_that_succeeds_when_it_is_requeued_after_it_was_mended(row: KindRow, place: KindEnvironment) -> None:
    definition = place.definition({"id": "a", **row.broken(place), "retry": {"max": 1}}, output="done")
    async with working(MemoryStore(), definition) as client:
        with pytest.raises(ExecutionFailed):
            await (await client.start(definition.with_(id="x"))).result(WAIT_S)
        (group,) = await client.dead_letters.groups(workflow="it")
        (letter,) = group.dead_letters
        place.mend()
        edits = {"broken": False} if row.by_input else None
        again = await client.dead_letters.requeue(letter.key, "it was mended", edits=edits)
        assert await again.result(WAIT_S) == "done"
        assert await client.dead_letters.groups(workflow="it") == []


@every_kind
def test_a_config_that_is_wrong_is_refused_before_anything_runs(row: KindRow, tmp_path: Path) -> None:
    for wrong in row.refused:
        with pytest.raises(BadDefinition) as refused:
            Definition.of({"perdure": 1, "name": "it", "input": {"value": {}}, "steps": [{"id": "a", row.kind: wrong}]})
        assert any(finding.pointer.startswith(f"/steps/0/{row.kind}") for finding in refused.value.findings), (wrong, refused.value)


@of_a_kind
def test_it_declares_what_people_and_editors_need(row: KindRow, tmp_path: Path) -> None:
    from perdure.definitions.kinds.kind_registry import KindRegistry

    kind = KindRegistry()[row.kind]
    assert kind.name == row.kind and kind.title and kind.summary and kind.icon and kind.idempotency and kind.example
    assert kind.limits and all(limit.name and limit.default and limit.then for limit in kind.limits)


DEFECT = re.compile(
    r"^execution \S+ failed: (?:StepFailed: step \S+ failed \([^)]*\): )?"
    r"(?:Type|Key|Attribute|Index|Assertion|Recursion|Value|Validation|Runtime|Unicode(?:Encode|Decode)?)Error\b"
)
"""What an execution says that has failed by an error that nobody expected."""


def fuzzed(kind: str) -> st.SearchStrategy[Any]:
    """Configs of a kind: by its shape, of pipelines by the names of operations, of tools what is no name (an execution waits for a tool that is missing)."""
    if kind == "tool":
        return ANYTHING.filter(lambda config: not isinstance(config, str) or not config)
    by_shape = configs(verbs_by_name()[kind].shape)
    return (
        by_shape | st.lists(st.dictionaries(st.sampled_from(sorted(OPERATIONS)), ANYTHING, min_size=1, max_size=1), max_size=2)
        if kind == "pipeline"
        else by_shape
    )


@pytest.mark.parametrize("kind", KINDS)
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_whatever_stands_behind_a_verb_is_refused_or_runs_and_is_never_a_defect(kind: str, world_of: Any, data: st.DataObject) -> None:
    fuzz(kind, world_of, data)


@pytest.mark.prove
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_whatever_stands_behind_a_verb_is_never_a_defect(kind: str, world_of: Any, data: st.DataObject) -> None:
    fuzz(kind, world_of, data)


@pytest.fixture
def world_of(tmp_path: Path) -> KindEnvironment:
    """A place whose server there is not: what asks it is refused."""
    return KindEnvironment("http://127.0.0.1:1/", tmp_path)


def fuzz(kind: str, place: KindEnvironment, data: st.DataObject) -> None:
    """Hold one config of a kind to it."""
    config, given_input = data.draw(fuzzed(kind), "config"), data.draw(st.none() | ANYTHING, "with")
    step = {"id": "a", kind: config, "retry": {"max": 1}, "timeout": 5} | ({} if given_input is None else {"with": given_input})
    try:
        definition = place.definition(step, secrets={"X": "a secret"})
    except BadDefinition as refused:
        vague = [finding for finding in refused.findings if not finding.pointer or not finding.message]
        if vague:
            raise
        return
    how, _, _ = asyncio.run(ended(definition))
    assert not isinstance(how, Exception) or (isinstance(how, ExecutionFailed) and not DEFECT.search(str(how))), repr(how)[:2_000]
