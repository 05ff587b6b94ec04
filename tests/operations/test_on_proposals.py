"""Claims about the operations on proposals: what each is given and returns can travel, and who may call them."""

import inspect
from typing import Any, get_type_hints

import msgspec
import pytest

from perdure.core.errors import Forbidden
from perdure.operations import on_catalog, on_proposals
from perdure.operations.operation_table import BY_FUNCTION
from perdure.service.callers import Caller
from perdure.service.store_access import StoreAccess
from perdure.stores.memory import MemoryStore
from tests.service.proposals.proposed_documents import BEN, T, document

OPERATIONS = [one for name, one in vars(on_proposals).items() if inspect.iscoroutinefunction(one) and not name.startswith("_")]


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda one: one.__name__)
def test_arguments_and_results_have_types_that_travel_and_errors_are_documented(operation: Any) -> None:
    for name, hint in get_type_hints(operation, include_extras=True).items():
        if name not in ("access", "caller"):
            _ = msgspec.msgpack.Decoder(hint)
    assert "Raises:" in operation.__doc__
    assert operation in BY_FUNCTION


async def test_a_new_definition_is_proposed_by_authors_alone_and_a_change_by_operators_too() -> None:
    access, operator = StoreAccess(MemoryStore()), Caller(T, "key:bot", frozenset(("operator",)))
    with pytest.raises(Forbidden, match="author"):
        await on_proposals.create(access, operator, "invoice", document(1))
    made = await on_catalog.create(access, T, document(1), "ada")
    one = await on_proposals.create(access, operator, "invoice", document(2), made.hash.removeprefix("sha256:"))
    assert (one.proposed_by, one.base_workflow_hash) == ("key:bot", made.hash)
    assert (await on_proposals.create(access, BEN, "other", document(1))).base_workflow_hash is None
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(one), type=type(one)) == one
