"""Claims about the operations on the catalog: what each is given and returns can travel, and they do what the service does."""

import inspect
from typing import Any, get_type_hints

import msgspec
import pytest

from perdure.core import values
from perdure.core.errors import BadValue, NotFound, StaleRecord
from perdure.core.paths import Key
from perdure.operations import on_catalog
from perdure.service.catalog_changes import DefinitionFields
from perdure.service.catalog_sync import SyncDocument
from perdure.service.execution_operations import StartRequest
from perdure.service.store_access import StoreAccess
from perdure.stores.memory import MemoryStore
from tests.service.catalog_documents import document

T = "acme"
OPERATIONS = [one for name, one in vars(on_catalog).items() if inspect.iscoroutinefunction(one) and one.__module__ == on_catalog.__name__]


def travelled(value: Any, kind: Any) -> Any:
    """A value as it arrives from another process."""
    return msgspec.msgpack.decode(msgspec.msgpack.encode(value), type=kind)


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda one: one.__name__)
def test_arguments_and_results_have_types_that_travel_and_errors_are_documented(operation: Any) -> None:
    hints = get_type_hints(operation, include_extras=True)
    for name, hint in hints.items():
        if name != "access":
            _ = msgspec.msgpack.Decoder(hint)
    assert "Raises:" in operation.__doc__


async def test_a_definition_lives_from_its_draft_to_its_deletion() -> None:
    access = StoreAccess(MemoryStore())

    async def call(operation: Any, *args: Any, **kwargs: Any) -> Any:
        result = await access.call(operation, *args, **kwargs)
        hints = get_type_hints(operation, include_extras=True)
        assert travelled(result, hints["return"]) == result
        return result

    assert (await call(on_catalog.validate, T, document(1))).slug == "invoice"
    assert (await call(on_catalog.preview, T, document(1))).before == ""
    _ = await call(on_catalog.save_draft, T, "invoice", document(1), "ada")
    _ = await call(on_catalog.discard_draft, T, "invoice", "ada")
    _ = await call(on_catalog.save_draft, T, "invoice", document(1), "ada")
    kept = await call(on_catalog.draft, T, "invoice")
    first = await call(on_catalog.update, T, "invoice", "ada", kept.document, fields=DefinitionFields(tags=("billing",)), note="the first")
    second = await call(on_catalog.update, T, "invoice", "ben", document(2), part="major", revision=first.revision)
    assert (first.version, second.version, second.tags) == ("1.0.0", "2.0.0", ("billing",))
    with pytest.raises(StaleRecord):
        await call(on_catalog.update, T, "invoice", "ada", document(3), revision=first.revision)
    drawn = await call(on_catalog.preview, T, document(3), "invoice")
    assert (drawn.valid, drawn.before, drawn.changes_text) == (True, "invoice@2.0.0", "~ note: set.n: 2 -> 3")
    assert [node.id for node in drawn.graph.nodes] == ["note"]
    assert (await call(on_catalog.preview, T, b"steps: {", "invoice")).graph is None
    _ = await call(on_catalog.move_tag, T, "invoice", "production", "ada", "^1")
    assert (await call(on_catalog.resolve, T, "invoice:production")).version == "1.0.0"
    assert (await call(on_catalog.diff, T, "invoice:production", "invoice")).text == "~ note: set.n: 1 -> 2"
    assert (await call(on_catalog.roll_back, T, "invoice", "ada", first.hash)).definition.version == "2.1.0"
    _ = await call(on_catalog.remove_tag, T, "invoice", "production", "ada")
    assert [one.kind for one in (await call(on_catalog.history, T, "invoice")).items][:3] == ["untag", "rollback", "tag"]
    assert (await call(on_catalog.version, T, "invoice@2")).version == "2.1.0"
    assert (await call(on_catalog.read, T, first.id)).revision == (await call(on_catalog.read, T, "invoice")).revision
    request = StartRequest(key=Key(T, "", "1"), input=values.encode(((), {}), "the input"))
    assert (await call(on_catalog.start, request, "invoice@1.0.0")).created
    assert (await call(on_catalog.start_document, request, document(5, "inline"))).key == Key(T, "inline", "1")
    assert (await call(on_catalog.sync, T, document(7), "ci")).outcome == "updated"
    planned = await call(on_catalog.sync_all, T, [SyncDocument(document(8, "other"))], "ci")
    assert (planned.applied, planned.deleted) == (False, ["invoice"])
    await call(on_catalog.delete, T, "invoice", "ada", "done")
    with pytest.raises(NotFound):
        await call(on_catalog.start, request, "invoice")
    assert (await call(on_catalog.page, T)).items == []
    with pytest.raises(BadValue):
        await call(on_catalog.page, T, limit=0)
    _ = await call(on_catalog.create, T, document(9), "ada")
    assert [one.slug for one in (await call(on_catalog.page, T, "INV", limit=5)).items] == ["invoice"]
