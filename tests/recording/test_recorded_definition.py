"""Claims about the definition of a recording: it does with other input what was done, has references where there were some, and no value that was given."""

from typing import Any

import msgspec
import pytest

from perdure import App, Definition
from perdure.core.errors import BadValue, NotFound
from perdure.definitions.format.definition_findings import value_at_pointer
from perdure.dialects.definition_reader import read_definition
from perdure.dialects.ref_dag.document_writer import from_definition
from perdure.operations import on_catalog, on_recordings
from perdure.recording.recorded_definition import DefinitionOptions, recorded_definition
from perdure.recording.recording_messages import RecordingOrder, ToolCallFailed
from tests.recording.recorder import Recorder, recorder

CANARY = "canary-5f0c"
AWKWARD: list[Any] = ["@alice", "@@twice", "@{input.user}", "mail @{x} and @@", "a@b.c", {"expr": "1 + 1"}, {"expr": "@alice"}, {"deep": [None, 1.5]}]


async def recorded(one: Recorder) -> None:
    """Two users, of whom one is read by a reference, and a payment that fails."""
    await one.call("get_user", user="@input.user")
    assert isinstance(await one.call("pay", cents=1), ToolCallFailed)
    await one.call("echo", text="@get_user_1.name", awkward=AWKWARD)


async def test_a_definition_does_with_other_input_what_was_recorded() -> None:
    async with recorder(order=RecordingOrder(title="Greets a user", input={"user": 7})) as one:
        await recorded(one)
        document = recorded_definition(await one.read(), "greet")
        sent = one.forwarded[-1][1]
    assert document["description"] == "Greets a user" and document["order"] == "listed"
    assert document["input"] == {"user": {"type": "integer"}}
    assert [(step["id"], step["tool"]) for step in document["steps"]] == [("get_user_1", "shop.get_user"), ("echo_1", "shop.echo")]
    assert document["steps"][0]["with"] == {"user": "@input.user"} and document["steps"][1]["with"]["text"] == "@get_user_1.name"

    forwarded: list[dict[str, Any]] = []

    async def get_user(user: int) -> dict[str, Any]:
        forwarded.append({"user": user})
        return {"name": "@grace"}

    async def echo(text: str, awkward: list[Any]) -> str:
        forwarded.append({"text": text, "awkward": awkward})
        return text

    flow = Definition.of(document, tools={"shop.get_user": get_user, "shop.echo": echo})
    async with App([flow], db="memory:") as app:
        assert await (await app.start(flow, user=8)).result("10s") == "@grace"
    assert forwarded == [{"user": 8}, {"text": "@grace", "awkward": sent["awkward"]}]
    assert sent["awkward"][0] == "@alice" and sent["awkward"][1] == "@twice"


async def test_a_definition_has_no_value_of_a_preset_or_of_the_input() -> None:
    async with recorder(order=RecordingOrder(input={"user": CANARY})) as one:
        await on_recordings.set_input(one.access, "default", "s1", {"all": {"token": CANARY}})
        await on_recordings.preset(one.access, "default", "s1", one_value({"secret": CANARY}), tool="shop.get_user", arguments={"user": "@input.user"})
        await one.call("echo", text="@get_user_1.secret", all="@input.all")
        found = await on_recordings.definition(one.access, "default", "s1", "quiet")
        details = await on_recordings.read(one.access, "default", "s1")
    assert details.calls[0].is_preset and details.calls[0].value == {"secret": CANARY}
    assert CANARY.encode() not in found.document and CANARY not in found.text and found.preview.valid
    assert b'"user":{"type":"string"}' in found.document and b'"all":{"type":"object"}' in found.document


def one_value(value: Any) -> bytes:
    from perdure.core import values

    return values.encode(value, "a value")


async def test_failed_calls_are_left_out_unless_they_are_wanted() -> None:
    async with recorder(order=RecordingOrder(input={"user": 7})) as one:
        await recorded(one)
        view = await one.read()
    steps = [step["id"] for step in recorded_definition(view, "all", DefinitionOptions(failed=True))["steps"]]
    assert steps == ["get_user_1", "pay_1", "echo_1"]
    assert "order" not in recorded_definition(view, "free", DefinitionOptions(order="references"))
    assert [step["id"] for step in recorded_definition(view, "one", DefinitionOptions(steps=("get_user_1",)))["steps"]] == ["get_user_1"]
    with pytest.raises(BadValue, match="chosen together with get_user_1, whose result it takes"):
        recorded_definition(view, "cut", DefinitionOptions(steps=("echo_1",)))
    with pytest.raises(BadValue, match="the steps of the recording: echo_1, get_user_1, pay_1"):
        recorded_definition(view, "cut", DefinitionOptions(steps=("nothing",)))
    with pytest.raises(BadValue, match="one with such calls"):
        recorded_definition(view, "none", DefinitionOptions(steps=("pay_1",)))


async def test_what_can_not_stand_in_a_definition_is_refused() -> None:
    async with recorder() as one:
        with pytest.raises(BadValue, match="one with a call that has a result"):
            recorded_definition(await one.read(), "empty")
        await one.call("echo", mark={"@secret": "KEY"})
        with pytest.raises(BadValue, match="without a key that marks secrets"):
            recorded_definition(await one.read(), "secret")


async def test_what_is_suggested_is_accepted_one_by_one() -> None:
    async with recorder() as one:
        await one.call("get_user", user="u-77120")
        await one.call("echo", text="Receipt for u-77120", mail="Grace", copies=2)
        user, text = "u-77120", "Receipt for u-77120"
        found = await on_recordings.suggestions(one.access, "default", "s1")
        by_key = {suggestion.key: suggestion for suggestion in found.references}
        whole, part = by_key["get_user_1/user"], by_key["echo_1/text#12-19"]
        assert (whole.literal, whole.is_proposed, part.literal, part.source) == (user, True, user, "input")
        preview = await on_recordings.definition(one.access, "default", "s1", "receipt", accept=[whole.key, part.key])
        document = msgspec.json.decode(preview.document)
        assert document["input"] == {part.place[1:]: {"type": "string"}} and preview.preview.valid
        assert [step["with"] for step in document["steps"]] == [
            {"user": part.reference},
            {"text": f"Receipt for @{{input{part.place.replace('/', '.')}}}", "mail": "Grace", "copies": 2},
        ]
        saved = await on_recordings.save(one.access, "default", "s1", "receipt", "ada", accept=[whole.key])
        assert saved.version == "1.0.0"
        kept = msgspec.json.decode((await on_catalog.version(one.access, "default", "receipt")).canonical)
        assert kept["steps"][1]["with"]["text"] == text, "what was not accepted stays"
        with pytest.raises(BadValue, match="suggestions of the recording: get_user_1/user"):
            await on_recordings.definition(one.access, "default", "s1", "receipt", accept=["echo_1/nothing"])


async def test_suggestions_say_their_places_as_pointers_whatever_the_keys_are() -> None:
    given: dict[str, Any] = {"user.id/of~it": "u-77120-of-emea", "more": [{"region.code": "r-99121-of-apac"}]}
    result = {"rows.all": [{"a/b": "u-77120-of-emea", "~c": {"x.y": "r-99121-of-apac"}}]}
    async with recorder() as one:
        await on_recordings.preset(one.access, "default", "s1", one_value(result), tool="shop.get_rows")
        await one.call("echo", **given)
        found = await on_recordings.suggestions(one.access, "default", "s1")
        keys = [suggestion.key for suggestion in found.references]
        preview = await on_recordings.definition(one.access, "default", "s1", "rows", accept=keys)
    for suggestion in found.references:
        assert value_at_pointer(result, suggestion.place) == suggestion.literal == value_at_pointer(given, suggestion.path)
    assert [(suggestion.key, suggestion.source, suggestion.place) for suggestion in found.references] == [
        ("echo_1/user.id~1of~0it", "get_rows_1", "/rows.all/0/a~1b"),
        ("echo_1/more/0/region.code", "get_rows_1", "/rows.all/0/~0c/x.y"),
    ]
    assert msgspec.json.decode(preview.document)["steps"][1]["with"] == {
        "user.id/of~it": '@get_rows_1["rows.all"][0]["a/b"]',
        "more": [{"region.code": '@get_rows_1["rows.all"][0]["~c"]["x.y"]'}],
    }
    assert preview.preview.valid


async def test_a_parameter_of_the_input_and_one_that_is_suggested_are_two() -> None:
    async with recorder(order=RecordingOrder(input={"text": 5})) as one:
        await one.call("get_user", text="@input.text")
        await one.call("get_user", text="u-77120-of-emea")
        await one.call("echo", copy="u-77120-of-emea")
        await one.call("get_user", region="r-99121-of-apac")
        await one.call("echo", zone="r-99121-of-apac")
        found = await on_recordings.suggestions(one.access, "default", "s1")
        keys = [suggestion.key for suggestion in found.references if suggestion.is_proposed]
        preview = await on_recordings.definition(one.access, "default", "s1", "two", accept=keys)
        backward = await on_recordings.definition(one.access, "default", "s1", "two", accept=[*reversed(keys), *keys])
        assert backward.document == preview.document and len(keys) > 1, "their order says nothing"
    document = msgspec.json.decode(preview.document)
    assert document["input"] == {"text": {"type": "integer"}, "text_2": {"type": "string"}, "region": {"type": "string"}}
    assert [value for step in document["steps"] for value in step["with"].values()] == [
        *("@input.text", "@input.text_2", "@input.text_2", "@input.region", "@input.region"),
    ]


async def test_a_recording_is_saved_as_a_draft_and_as_versions() -> None:
    async with recorder(order=RecordingOrder(input={"user": 7})) as one:
        await recorded(one)
        access = one.access
        draft = await on_recordings.save(access, "default", "s1", "greet", "ada", draft=True)
        assert draft.has_draft and not draft.version
        assert b"tool: shop.get_user" in (await on_catalog.draft(access, "default", "greet")).document
        first = await on_recordings.save(access, "default", "s1", "greet", "ada", note="as recorded")
        assert first.version == "1.0.0" and not first.has_draft
        await one.call("echo", text="more")
        second = await on_recordings.save(access, "default", "s1", "greet", "ada", order="references")
        assert second.version == "1.1.0"
        version = await on_catalog.version(access, "default", "greet")
        assert (version.source, version.by) == ("record", "ada")
        with pytest.raises(NotFound):
            await on_recordings.save(access, "default", "nothing", "greet", "ada")


async def test_a_definition_can_be_written_as_a_dag_of_references() -> None:
    async with recorder(order=RecordingOrder(input={"user": 7})) as one:
        await one.call("get_user", user="@input.user")
        await one.call("echo", text="@get_user_1.name", mail="a@b.c")
        document = recorded_definition(await one.read(), "dag", DefinitionOptions(order="references"))
    steps = [{**step, "timeout": "30s"} for step in document["steps"]]  # in this dialect, every call of a tool has this timeout
    written = from_definition(read_definition({**document, "steps": steps}).canonical)
    assert written.document is not None, written.findings
    found = [(step["name"], step["action"], step["input"]) for step in written.document["steps"]]
    assert found == [
        ("get_user_1", {"toolName": "shop.get_user"}, {"user": "@input.user"}),
        ("echo_1", {"toolName": "shop.echo"}, {"text": "@get_user_1.name", "mail": "a@b.c"}),
    ]


async def test_recordings_are_listed_and_idle_ones_are_marked() -> None:
    async with recorder(order=RecordingOrder(title="Greets")) as one:
        await on_recordings.start(one.access, "default", "s2", author="ada")
        await on_recordings.end(one.access, "default", "s2")
        listed = (await on_recordings.page(one.access, "default")).items
        assert [(found.id, found.title, found.open, found.idle, found.initiator) for found in listed] == [
            ("s2", "", False, False, "ada"),
            ("s1", "Greets", True, True, ""),
        ]
        assert [found.id for found in (await on_recordings.page(one.access, "default", open=True)).items] == ["s1"]
        first = await on_recordings.page(one.access, "default", limit=1)
        assert first.next is not None
        assert [found.id for found in (await on_recordings.page(one.access, "default", limit=1, after=first.next)).items] == ["s1"]
        answer = await on_recordings.call(one.access, "default", "s1", "shop.get_user")
        assert (answer.step, answer.is_error, answer.structured_content["id"]) == ("get_user_1", False, 42)
        failed = await on_recordings.call(one.access, "default", "s1", "shop.pay", {"cents": 1}, "id-1")
        assert failed.is_error and failed.content == [{"type": "text", "text": "no money"}]
        assert await on_recordings.call(one.access, "default", "s1", "shop.pay", {"cents": 1}, "id-1") == failed
        details = await on_recordings.read(one.access, "default", "s1", after=1)
        assert [found.step for found in details.calls] == ["pay_1"] and details.calls_in_all == 2
        assert details.calls_by_state == {"completed": 1, "failed": 1}
        with pytest.raises(BadValue, match="after: -1 is not a whole number from 0"):
            await on_recordings.read(one.access, "default", "s1", after=-1)
