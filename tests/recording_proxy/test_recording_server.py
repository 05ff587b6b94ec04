"""Claims about the proxy of a recording, with a client of the protocol and a server behind it: calls are recorded, and all else passes through."""

import asyncio
import re
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import mcp_types
import pytest
from mcp.client import Client

from perdure.core import values
from perdure.mcp.call_channels import CallChannels
from perdure.mcp.server_configs import read_servers
from perdure.mcp.server_tools import recorded_tools
from perdure.mcp.tool_lists import kept_lists
from perdure.operations import on_catalog, on_recordings
from perdure.recording.recording_requests import recording_key
from perdure.recording.recording_view import RecordedCall
from perdure.recording.recording_workflow import recording_workflow
from perdure.recording_proxy.connected_servers import ConnectedServers
from perdure.recording_proxy.listed_names import listed_names, with_references
from perdure.recording_proxy.recording_server import STATUS_CALLS, RecordingServer
from perdure.runtime.engine import Engine
from perdure.runtime.local_engine import begin_engine
from perdure.service.store_access import StoreAccess
from perdure.stores.configured_store import open_store

SERVER = Path(__file__).with_name("full_server.py")
RAW_SERVER = Path(__file__).parent.parent / "mcp" / "raw_server.py"


class Proxied:
    """A recording with its proxy."""

    def __init__(self, access: StoreAccess, server: RecordingServer) -> None:
        self.access, self.server = access, server

    async def calls(self) -> list[RecordedCall]:
        return (await on_recordings.read(self.access, "default", "r1")).calls


@asynccontextmanager
async def proxied(directory: Path) -> AsyncIterator[Proxied]:
    full = {"command": sys.executable, "args": [str(SERVER)], "env": {"MARKS": str(directory)}}
    raw = {"command": sys.executable, "args": [str(RAW_SERVER)], "env": {"CALLS": str(directory / "calls")}, "elicitation": True}
    servers = read_servers({"mcpServers": {"full": full, "raw": raw}})
    lists, channels = kept_lists(servers), CallChannels()
    store = open_store(f"sqlite:///{directory / 'recording.db'}")
    engine = Engine(store, [recording_workflow(recorded_tools(servers, lists, channels))])
    running = await begin_engine(engine)
    access = StoreAccess(store, engine)
    try:
        await on_recordings.start(access, "default", "r1", input={"user": 7})
        connected = ConnectedServers(servers, lists, engine, "default")
        yield Proxied(access, RecordingServer(access, recording_key("default", "r1"), connected, channels, "ada"))
    finally:
        engine.stop()
        await running
        await store.close()


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def text_of(result: Any) -> str:
    return "\n".join(part.text for part in result.content if part.type == "text")


@pytest.mark.slow
async def test_calls_are_recorded_and_answered_with_what_the_server_gave(directory: Path) -> None:
    async with proxied(directory) as one, Client(one.server.server) as client:
        listed = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert {"get_user", "work", "wait", "picture", "asks", "recording_status", "recording_save"} <= listed.keys()
        assert listed["get_user"].input_schema["properties"]["id"]["anyOf"][1]["pattern"] == "^@"
        assert listed["get_user"].input_schema["required"] == ["id"]
        found = await client.call_tool("get_user", {"id": "@input.user"})
        assert not found.is_error and found.structured_content == {"id": 7, "name": "Ada"}
        assert (found.meta or {})["perdure/step"] == "get_user_1"
        again = await client.call_tool("get_user", {"id": "@get_user_1.id"})
        assert again.structured_content == {"id": 7, "name": "Ada"}
        picture = await client.call_tool("picture", {})
        assert [part.type for part in picture.content] == ["text", "image"] and picture.content[1].data == "aGk="  # type: ignore[union-attr]  # it is an image
        wrong = await client.call_tool("get_user", {"id": "@input.nothing"})
        assert wrong.is_error and "there is no 'nothing'" in text_of(wrong)
        unknown = await client.call_tool("nothing", {})
        assert unknown.is_error
        status = text_of(await client.call_tool("recording_status", {}))
        assert '@get_user_2 = full.get_user({"id":"@get_user_1.id"}): completed' in status
        assert [call.step for call in await one.calls()] == ["get_user_1", "get_user_2", "picture_1", "get_user_3"]


@pytest.mark.slow
async def test_a_call_that_is_repeated_under_its_id_is_made_once(directory: Path) -> None:
    async with proxied(directory) as one, Client(one.server.server) as client:
        meta: Any = {"perdure/callId": "7"}
        first = await client.call_tool("get_user", {"id": 1}, meta=meta)
        again = await client.call_tool("get_user", {"id": 1}, meta=meta)
        assert first.structured_content == again.structured_content and len(await one.calls()) == 1


@pytest.mark.slow
async def test_progress_and_questions_pass_through(directory: Path) -> None:
    told: list[tuple[float, float | None, str | None]] = []
    asked: list[str] = []

    async def progress(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, total, message))

    async def answer(_: object, params: Any) -> mcp_types.ElicitResult | mcp_types.ErrorData:
        asked.append(params.message)
        return mcp_types.ElicitResult(action="accept", content={"account": "blue", "copies": 2})

    asks: Any = answer
    async with proxied(directory) as one, Client(one.server.server, elicitation_callback=asks, mode="legacy") as client:
        assert text_of(await client.call_tool("work", {"parts": 2}, progress_callback=progress)) == "worked"
        assert told == [(1, 2, "part 1"), (2, 2, "part 2")]
        assert "blue" in text_of(await client.call_tool("asks", {})) and asked == ["Which account?"]
        assert [call.step for call in await one.calls()] == ["work_1", "asks_1"]


@pytest.mark.slow
async def test_a_call_that_its_client_cancels_ends_at_its_server(directory: Path) -> None:
    async with proxied(directory) as one, Client(one.server.server) as client:
        waiting = asyncio.create_task(client.call_tool("wait", {"s": 60}))
        await until(lambda: (directory / "begun").exists())
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await until(lambda: (directory / "cancelled").exists())
        (call,) = await one.calls()
        assert call.state in ("in_doubt", "cancelled")


async def until(holds: Callable[[], bool]) -> None:
    for _ in range(400):
        if holds():
            return
        await asyncio.sleep(0.05)
    raise AssertionError("it did not happen in time")


@pytest.mark.slow
async def test_resources_and_prompts_pass_through_and_are_not_recorded(directory: Path) -> None:
    async with proxied(directory) as one, Client(one.server.server) as client:
        assert [str(found.uri) for found in (await client.list_resources()).resources] == ["notes://today"]
        assert [found.uri_template for found in (await client.list_resource_templates()).resource_templates] == ["notes://{day}"]
        contents: Any = (await client.read_resource("notes://today")).contents
        assert contents[0].text == "buy milk"
        other: Any = (await client.read_resource("notes://monday")).contents
        assert other[0].text == "nothing on monday"
        assert [found.name for found in (await client.list_prompts()).prompts] == ["greet"]
        prompt: Any = await client.get_prompt("greet", {"name": "Ada"})
        assert prompt.messages[0].content.text == "Greet Ada kindly"
        with pytest.raises(Exception, match=r"can't be had|no server has"):
            await client.get_prompt("nothing", {})
        assert await one.calls() == []


@pytest.mark.slow
async def test_a_client_presets_saves_and_ends_the_recording(directory: Path) -> None:
    async with proxied(directory) as one, Client(one.server.server) as client:
        assert "get_user_1 has this result" in text_of(await client.call_tool("recording_preset", {"step": "get_user_1", "result": {"id": 5}}))
        assert (await client.call_tool("get_user", {"id": 1})).structured_content == {"id": 5}
        await client.call_tool("recording_input", {"values": {"parts": 1}})
        assert text_of(await client.call_tool("work", {"parts": "@input.parts"})) == "worked"
        assert text_of(await client.call_tool("recording_save", {"name": "greet", "draft": True})) == "saved as greet, as a draft"
        assert text_of(await client.call_tool("recording_save", {"name": "greet"})) == "saved as greet@1.0.0"
        assert (await on_catalog.version(one.access, "default", "greet")).by == "ada"
        assert "has ended" in text_of(await client.call_tool("recording_end", {}))
        late = await client.call_tool("get_user", {"id": 1})
        assert late.is_error and "has ended" in text_of(late)


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    (
        "recording_save",
        {"name": "greet", "order": "reference"},
        r'at order: "reference" is not one of .*Call it again with name \(required\), draft, order$',
    ),
    ("recording_save", {}, '"name" is a required property'),
    ("recording_save", {"name": "greet", "draft": "no"}, 'at draft: "no" is not of type "boolean"'),
    ("recording_preset", {"step": "get_user_1"}, '"result" is a required property'),
    ("recording_input", {"values": [1]}, 'at values: .* is not of type "object"'),
    ("recording_end", {"force": True}, "Additional properties .*Call it again with no arguments$"),
]


@pytest.mark.slow
async def test_the_tools_of_the_recording_refuse_arguments_that_do_not_fit_their_schemas(directory: Path) -> None:
    async with proxied(directory) as one, Client(one.server.server) as client:
        _ = await client.call_tool("get_user", {"id": 1})
        for tool, given, why in REFUSED:
            refused = await client.call_tool(tool, given)
            assert refused.is_error and re.search(why, text_of(refused)), (tool, given, text_of(refused))
            found = await on_recordings.read(one.access, "default", "r1")
            assert found.open and found.input == {"user": 7} and (await on_catalog.page(one.access, "default")).items == []


@pytest.mark.slow
async def test_the_status_shows_the_latest_calls_and_has_a_bounded_size(directory: Path) -> None:
    async with proxied(directory) as one, Client(one.server.server) as client:
        for number in range(STATUS_CALLS + 12):
            given = {"id": "x" * 3_000, "more": ["y" * 3_000] * number}
            _ = await on_recordings.preset(one.access, "default", "r1", values.encode(number, "a result"), tool="full.get_user", arguments=given)
        await on_recordings.set_input(one.access, "default", "r1", {"text": "z" * 100_000})
        status = text_of(await client.call_tool("recording_status", {}))
    lines = status.splitlines()
    assert len(status) < 40_000 and lines[2] == "12 earlier calls are not shown. perdure recording show r1 shows them"
    assert [line.partition(" ")[0] for line in lines[3:]] == [f"@get_user_{number}" for number in range(13, STATUS_CALLS + 13)]
    assert all(line.endswith(": completed, preset") for line in lines[3:])


def test_tools_of_one_name_are_told_apart_by_their_servers() -> None:
    names = listed_names(["a.read", "b.read", "b.write.now", "c.recording_end", "d.x" * 40], ["recording_end"])
    assert names["a_read"] == "a.read" and names["b_read"] == "b.read" and names["write_now"] == "b.write.now" and names["c_recording_end"] == "c.recording_end"
    assert all(len(name) <= 64 for name in names) and len(names) == 5


def test_any_value_of_a_schema_may_be_a_reference() -> None:
    schema = with_references(
        {
            "properties": {
                "n": {"type": "integer", "description": "how many"},
                "text": {"type": "string"},
                "list": {"type": "array", "items": {"$ref": "#/$defs/one"}},
            },
            "$defs": {"one": {"enum": [1]}},
        }
    )
    assert schema["type"] == "object" and schema["properties"]["text"] == {"type": "string"}
    assert schema["properties"]["n"]["description"] == "how many" and schema["properties"]["n"]["anyOf"][0] == {"type": "integer"}
    assert schema["properties"]["list"]["anyOf"][0]["items"]["anyOf"][0] == {"$ref": "#/$defs/one"}
    assert schema["$defs"]["one"]["anyOf"][0] == {"enum": [1]}
