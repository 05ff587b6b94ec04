"""Claims about recordings: how calls become steps, which texts are references, and what is recorded of calls that fail, wait, or are not made."""

import asyncio
import json
from collections.abc import Callable
from typing import Any, cast

import pytest

from perdure.core.errors import BadValue, HasEnded, NotFound
from perdure.definitions.expr.plain_values import DEPTH_MAX
from perdure.operations import on_execution_changes, on_recordings
from perdure.recording import recording_requests
from perdure.recording.recording_messages import CallRequest, RecordingOrder, ToolAnswer, ToolCallFailed, ToolPreset
from perdure.recording.recording_requests import recording_key
from perdure.recording.recording_workflow import _Call, _Recording
from perdure.recording.step_names import step_base
from perdure.stores.memory import MemoryStore
from tests.recording.recorder import Recorder, recorder


@pytest.mark.parametrize(
    ("tool", "base"),
    [
        ("shop.GET_USER", "get_user"),
        ("shop.readFile", "read_file"),
        ("shop.read-file.v2", "read_file_v2"),
        ("shop.2fa", "call_2fa"),
        ("shop.名前", "call"),
        ("plain", "plain"),
    ],
)
def test_a_step_is_named_after_its_tool_without_its_server(tool: str, base: str) -> None:
    assert step_base(tool) == base


async def test_calls_are_steps_and_references_are_forwarded_as_values() -> None:
    async with recorder(order=RecordingOrder(input={"user": {"id": 7}})) as one:
        assert await one.call("get_user", id=None, user="@input.user.id") == {"id": 42, "name": "@ada", "tags": ["a", "b"]}
        assert await one.call("echo", text="@get_user_1.name", all=["@get_user_1.tags[1]", {"deep": "@get_user_1"}]) == "@ada"
        assert await one.call("get_user") == {"id": 42, "name": "@ada", "tags": ["a", "b"]}
        assert one.forwarded == [
            ("get_user", {"user": 7}),
            ("echo", {"text": "@ada", "all": ["b", {"deep": {"id": 42, "name": "@ada", "tags": ["a", "b"]}}]}),
            ("get_user", {}),
        ]
        found = await one.read()
    assert [(call.number, call.step, call.tool, call.state) for call in found.calls] == [
        (1, "get_user_1", "shop.get_user", "completed"),
        (2, "echo_1", "shop.echo", "completed"),
        (3, "get_user_2", "shop.get_user", "completed"),
    ]
    assert found.calls[1].arguments == {"text": "@get_user_1.name", "all": ["@get_user_1.tags[1]", {"deep": "@get_user_1"}]}
    assert found.calls[1].sent == {"text": "@ada", "all": ["b", {"deep": {"id": 42, "name": "@ada", "tags": ["a", "b"]}}]}
    assert found.state == "open" and found.input == {"user": {"id": 7}}


async def test_any_other_text_with_an_at_sign_is_a_literal() -> None:
    literal = [
        "@alice",
        "@get_user_2.id",
        "@secrets.KEY",
        "@get_user_1 and more",
        "@",
        "@item",
        "mail@example.org",
        "@{get_user_1.id}",
        "x @{get_user_1.id}",
        "@steps.a.output",
    ]
    async with recorder() as one:
        _ = await one.call("get_user")
        _ = await one.call("echo", texts=literal, marked="@@alice", twice="@@@alice")
        assert one.forwarded[-1] == ("echo", {"texts": literal, "marked": "@alice", "twice": "@@alice"})
        kept = (await one.read()).calls[1].arguments
    assert kept == {"texts": [f"@{text}" if text.startswith("@") else text for text in literal], "marked": "@@alice", "twice": "@@@alice"}


@pytest.mark.parametrize(("text", "why"), [("@input.nothing", "there is no 'nothing'"), ("@get_user_1.id.deeper", "deeper"), ("@pay_1", "it failed: no money")])
async def test_a_reference_that_names_nothing_is_answered_and_not_forwarded(text: str, why: str) -> None:
    async with recorder(order=RecordingOrder(input={"a": 1})) as one:
        await one.call("get_user")
        await one.call("pay")
        before = len(one.forwarded)
        failed = await one.call("echo", text=text)
        assert isinstance(failed, ToolCallFailed) and why in str(failed)
        assert len(one.forwarded) == before
        call = (await one.read()).calls[-1]
        assert (call.step, call.state, call.sent) == ("echo_1", "refused", None) and why in call.error
        assert await one.call("echo", text="again") == "again"
        assert (await one.read()).calls[-1].step == "echo_2"


async def test_a_failed_call_is_recorded_with_what_the_server_said() -> None:
    async with recorder() as one:
        failed = await one.call("pay", cents=500)
        assert isinstance(failed, ToolCallFailed)
        assert str(failed) == "no money" and failed.answer == {"isError": True, "content": [{"type": "text", "text": "no money"}]}
        missing = await one.call("nothing")
        assert "has no tool 'shop.nothing'" in str(missing)
        assert [(call.step, call.state, call.attempts) for call in (await one.read()).calls] == [("pay_1", "failed", 1), ("nothing_1", "failed", 1)]


async def test_parallel_calls_are_numbered_by_arrival_and_wait_for_those_that_they_name() -> None:
    async with recorder() as one:
        slow = asyncio.create_task(one.call("wait", s=0.2))
        await until_there(one, "wait_1")
        after = asyncio.create_task(one.call("echo", text="@wait_1"))
        await until_there(one, "echo_1")
        assert await one.call("wait", s=0.0) == "waited", "it waits for nothing"
        assert not slow.done()
        states = {call.step: call.state for call in (await one.read()).calls}
        assert states == {"wait_1": "running", "echo_1": "waiting", "wait_2": "completed"}
        assert list(await asyncio.gather(slow, after)) == ["waited", "waited"]
        assert [name for name, _ in one.forwarded] == ["wait", "wait", "echo"]


async def until_there(one: Recorder, step: str) -> None:
    for _ in range(500):
        if any(call.step == step for call in (await one.read()).calls):
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"{step} was not recorded")


class CountedCall(_Call):
    """A call that counts how often its step is looked at."""

    looks = 0

    def __getattribute__(self, name: str) -> Any:
        CountedCall.looks += name == "step"
        return super().__getattribute__(name)


async def test_the_work_for_calls_that_wait_grows_with_their_number_and_not_with_its_square() -> None:
    def looks(size: int) -> int:
        one = _Recording(cast("Any", None), RecordingOrder(), lambda *_: None)
        calls = [CountedCall(f"echo_{number}", CallRequest(id="", tool="echo"), {"text": f"@echo_{number - 1}"}, cast("Any", None)) for number in range(size)]
        one.running[asyncio.get_running_loop().create_future()] = calls[0]
        one.waiting = [*calls[1:]]
        before = CountedCall.looks
        one._begin_ready()
        assert one.waiting == calls[1:]
        return CountedCall.looks - before

    assert looks(400) <= 5 * looks(100)


async def test_the_same_call_is_made_once() -> None:
    async with recorder() as one:
        assert await one.call("echo", id="7", text="first") == "first"
        assert await one.call("echo", id="7", text="second") == "first"
        waiting = [asyncio.create_task(one.call("wait", id="8", s=0.1)) for _ in range(3)]
        assert await asyncio.gather(*waiting) == ["waited"] * 3
        assert [name for name, _ in one.forwarded] == ["echo", "wait"]
        assert [call.id for call in (await one.read()).calls] == ["7", "8"]


async def test_presets_take_the_place_of_calls_and_are_visible_as_such() -> None:
    async with recorder() as one:
        step = await recording_requests.preset_result(one.access, one.key, ToolPreset(tool="shop.get_user", arguments={"id": "@input"}, result={"id": 1}))
        assert step == "get_user_1"
        assert await one.call("echo", text="@get_user_1.id") == "1"
        assert await recording_requests.preset_result(one.access, one.key, ToolPreset(step="get_user_2", result=[1, 2])) == "get_user_2"
        assert (await one.read()).presets_to_come == ["get_user_2"]
        found = await one.result("get_user", user=5)
        assert isinstance(found.answer, ToolAnswer) and found.answer.is_preset and found.answer.structured_content == {"result": [1, 2]}
        assert await one.call("echo", text="@get_user_2[1]") == "2"
        assert [name for name, _ in one.forwarded] == ["echo", "echo"]
        assert isinstance(await one.call("pay"), ToolCallFailed)
        assert await recording_requests.preset_result(one.access, one.key, ToolPreset(step="pay_1", result="paid")) == "pay_1"
        assert await one.call("echo", text="@pay_1") == "paid"
        with pytest.raises(BadValue, match="echo_1 has its result already"):
            await recording_requests.preset_result(one.access, one.key, ToolPreset(step="echo_1", result=1))
        with pytest.raises(BadValue, match="given for a step, or for a tool"):
            await recording_requests.preset_result(one.access, one.key, ToolPreset(result=1))
        recording = await one.read()
    assert [(call.step, call.state, call.value, call.is_preset) for call in recording.calls if call.is_preset] == [
        ("get_user_1", "completed", {"id": 1}, True),
        ("get_user_2", "completed", [1, 2], True),
        ("pay_1", "completed", "paid", True),
    ]
    assert recording.presets_to_come == []


@pytest.mark.parametrize("name", ["get_user", "get_user_0", "Get_user_1", "get_user_1 ", "get user_1", "@get_user_1", "_1", "x" * 61 + "_1"])
async def test_a_preset_for_what_no_step_can_be_called_is_refused(name: str) -> None:
    async with recorder() as one:
        with pytest.raises(BadValue, match="is not the name of a step: that of a tool with a number"):
            await recording_requests.preset_result(one.access, one.key, ToolPreset(step=name, result=1))
        assert await recording_requests.preset_result(one.access, one.key, ToolPreset(step="x" * 60 + "_10", result=1))


async def test_input_is_set_while_the_recording_goes_on() -> None:
    async with recorder(order=RecordingOrder(input={"a": 1})) as one:
        await recording_requests.set_input(one.access, one.key, {"b": "two"})
        assert await one.call("echo", text="@input.b") == "two"
        await recording_requests.set_input(one.access, one.key, {"b": "three"})
        assert await one.call("echo", text="@input.b") == "three"
        assert (await one.read()).input == {"a": 1, "b": "three"}


async def test_a_call_is_cancelled_alone() -> None:
    async with recorder() as one:
        slow = asyncio.create_task(one.call("wait", id="slow", s=60))
        await until_there(one, "wait_1")
        behind = asyncio.create_task(one.call("echo", id="behind", text="@wait_1"))
        await until_there(one, "echo_1")
        await recording_requests.cancel_call(one.access, one.key, "behind")
        assert "cancelled before it began" in str(await behind)
        await recording_requests.cancel_call(one.access, one.key, "slow")
        assert isinstance(await slow, ToolCallFailed)
        assert await one.call("echo", text="still here") == "still here"
        states = {call.step: call.state for call in (await one.read()).calls}
        assert states["echo_1"] == "refused" and states["wait_1"] in ("cancelled", "in_doubt") and states["echo_2"] == "completed"


async def test_a_recording_ends_when_it_is_ended_and_then_takes_no_call() -> None:
    async with recorder() as one:
        slow = asyncio.create_task(one.call("wait", s=0.1))
        await until_there(one, "wait_1")
        await recording_requests.end_recording(one.access, one.key)
        assert await slow == "waited", "what has begun ends"
        assert (await one.read()).state == "ended"
        with pytest.raises(HasEnded):
            await one.call("echo", text="late")
        one.key = one.key._replace(id="nothing")
        with pytest.raises(NotFound):
            await one.call("echo")
        with pytest.raises(NotFound):
            await one.read()


async def test_a_recording_continues_in_another_engine_from_its_log() -> None:
    store = MemoryStore()
    async with recorder(store) as one:
        _ = await one.call("get_user"), await one.call("pay")
        await recording_requests.set_input(one.access, one.key, {"a": 1})
    async with recorder(store, idle_s=0.0) as one:
        assert await one.call("echo", text="@get_user_1.name") == "@ada"
        assert await one.call("get_user", a="@input.a") == {"id": 42, "name": "@ada", "tags": ["a", "b"]}
        assert [call.step for call in (await one.read()).calls] == ["get_user_1", "pay_1", "echo_1", "get_user_2"]
        assert one.forwarded == [("echo", {"text": "@ada"}), ("get_user", {"a": 1})]


async def test_large_arguments_and_results_are_recorded() -> None:
    large = "x" * 300_000
    async with recorder() as one:
        assert await one.call("echo", text=large) == large
        assert await one.call("echo", text="@echo_1") == large
        found = await one.read()
    assert found.calls[0].value == large and found.calls[1].sent == {"text": large} and found.calls[1].arguments == {"text": "@echo_1"}


async def test_a_large_preset_is_the_answer_of_its_step_however_often_it_is_asked_for() -> None:
    large = {"text": "x" * 300_000}
    async with recorder() as one:
        _ = await recording_requests.preset_result(one.access, one.key, ToolPreset(step="echo_1", result=large))
        assert await one.call("echo", id="1") == large
        assert await one.call("echo", id="1") == large
        assert (await one.read()).calls[0].value == large


async def test_values_that_would_grow_without_bound_are_refused() -> None:
    async with recorder() as one:
        large: Any = ["x" * 1000] * 2000
        _ = await recording_requests.preset_result(one.access, one.key, ToolPreset(tool="shop.get_user", result=large))
        failed = await one.call("echo", all=["@get_user_1"] * 500)
        assert isinstance(failed, ToolCallFailed) and "expand to more than" in str(failed)


async def test_a_message_that_is_no_call_is_refused() -> None:
    async with recorder() as one:
        with pytest.raises(BadValue, match="the message is not valid"):
            await recording_requests.call_tool(one.access, one.key, CallRequest(id="1", tool=5))  # type: ignore[arg-type]  # that is the point


def nested(levels: int, of: Callable[[list[Any]], Any] = list) -> Any:
    """A value in lists, or in what is made of them."""
    value: Any = "x"
    for _ in range(levels):
        value = of([value])
    return value


@pytest.mark.parametrize("levels", [DEPTH_MAX + 1, 900, 5000])
async def test_messages_that_nest_too_deep_are_refused_and_do_not_end_the_recording(levels: int) -> None:
    deep, key = nested(levels), recording_key("default", "s1")
    async with recorder() as one:
        for refused in (
            one.call("echo", a=deep),
            recording_requests.preset_result(one.access, key, ToolPreset(tool="shop.echo", result=deep)),
            recording_requests.preset_result(one.access, key, ToolPreset(tool="shop.echo", arguments={"a": deep}, result=1)),
            recording_requests.preset_result(one.access, key, ToolPreset(step="echo_1", result=deep)),
            recording_requests.set_input(one.access, key, {"a": deep}),
            on_recordings.start(one.access, "default", "s2", input={"a": deep}),
        ):
            with pytest.raises(BadValue, match=f"is refused: its lists and mappings nest more than {DEPTH_MAX} levels deep"):
                await refused
        assert await one.call("echo", text="still here", a=nested(DEPTH_MAX - 1)) == "still here"
        assert [call.step for call in (await one.read()).calls] == ["echo_1"] and (await one.read()).state == "open"


async def test_a_message_that_nests_too_deep_is_refused_by_the_recording_too() -> None:
    async with recorder() as one:
        with pytest.raises(BadValue, match=f"nest more than {DEPTH_MAX} levels deep"):
            await one.call("echo", a=nested(900, tuple))  # a list only once it is encoded
        assert await one.call("echo", text="still here") == "still here"


@pytest.mark.parametrize("levels", [DEPTH_MAX, 970, 975, 980])
async def test_an_answer_that_nests_too_deep_fails_its_call_alone(levels: int) -> None:
    async with recorder() as one:
        failed = await one.call("nest", levels=levels)
        assert isinstance(failed, ToolCallFailed) and f"can't be recorded: its lists and mappings nest more than {DEPTH_MAX} levels deep" in str(failed)
        assert await one.call("nest", levels=DEPTH_MAX - 2) == {"nested": nested(DEPTH_MAX - 2)}
        assert [(call.step, call.state) for call in (await one.read()).calls] == [("nest_1", "failed"), ("nest_2", "completed")]


async def test_arguments_that_nest_too_deep_with_their_references_are_refused() -> None:
    async with recorder() as one:
        text = "[" * 100 + "]" * 100
        await one.call("echo", text=text)
        failed = await one.call("echo", all="@echo_1")
        assert isinstance(failed, ToolCallFailed) and "with the values of its references, its lists and mappings nest" in str(failed)
        assert await one.call("echo", text="@echo_1" + "[0]" * 40) == json.loads(text[40:-40])


async def test_a_recording_that_is_terminated_takes_its_calls_along() -> None:
    async with recorder() as one:
        slow = asyncio.create_task(one.call("wait", s=60))
        await until_there(one, "wait_1")
        await on_execution_changes.terminate(one.access, one.key, "enough", wait=True)
        with pytest.raises(Exception, match=r"no reply|ended"):
            await slow
        assert (await one.read()).state == "ended"
