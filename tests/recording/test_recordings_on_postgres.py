"""Claims about recordings on Postgres: what is true of them on a file is true there, also from another process' point of view, and after an engine has gone."""

from collections.abc import Iterator

import pytest

from perdure.operations import on_recordings
from perdure.recording.recording_messages import RecordingOrder, ToolCallFailed
from perdure.service.store_access import StoreAccess
from perdure.stores.configured_store import open_store
from tests.recording.recorder import recorder
from tests.stores.servers import postgres

pytestmark = [pytest.mark.slow, pytest.mark.real]


@pytest.fixture
def url() -> Iterator[str]:
    with postgres() as server:
        yield server.url


async def test_calls_references_presets_and_the_definition(url: str) -> None:
    store, other = open_store(url), open_store(url)
    try:
        async with recorder(store, order=RecordingOrder(title="Greets", input={"user": 7})) as one:
            elsewhere = StoreAccess(other)
            assert (await one.call("get_user", user="@input.user"))["id"] == 42
            assert isinstance(await one.call("pay", cents=1), ToolCallFailed)
            answer = await on_recordings.call(elsewhere, "default", "s1", "shop.echo", {"text": "@get_user_1.name"}, "id-1")
            assert (answer.step, answer.content) == ("echo_1", [{"type": "text", "text": "@ada"}])
            assert await on_recordings.call(elsewhere, "default", "s1", "shop.echo", {"text": "@get_user_1.name"}, "id-1") == answer
        async with recorder(store) as again:
            assert await again.call("echo", text="@get_user_1.id", much="x" * 100_000) == "42"
            details = await on_recordings.read(StoreAccess(other), "default", "s1")
            assert [call.step for call in details.calls] == ["get_user_1", "pay_1", "echo_1", "echo_2"]
            assert details.calls[-1].sent == {"text": 42, "much": "x" * 100_000}
            suggested = await on_recordings.suggestions(StoreAccess(other), "default", "s1")
            assert not suggested.is_partial
            saved = await on_recordings.save(again.access, "default", "s1", "greets", "ada")
            assert saved.version == "1.0.0"
        assert [call[0] for call in (*one.forwarded, *again.forwarded)] == ["get_user", "pay", "echo", "echo"]
    finally:
        await other.close()
        await store.close()
