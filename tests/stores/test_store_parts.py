"""What a store can do beyond the protocol is said by its parts: nothing looks for a method of a store, and a wrapper hands on what it says."""

import ast
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from perdure.stores.blob_marks import BLOB_REMOVAL, blob_removal_of
from perdure.stores.encoded_store import EncodedBlobRemoval, EncodedStore, EncodedTransactions, EncodedUserTransactions
from perdure.stores.memory import MemoryStore
from perdure.stores.payload_codec import Compressed
from perdure.stores.protocol import TRANSACTIONS
from perdure.stores.secret_vault import VAULT
from perdure.stores.sqlite.read_only_store import ReadOnlySqliteStore
from perdure.stores.sqlite.store import SqliteStore
from perdure.stores.store_parts import PartName, StoreParts
from perdure.stores.user_transactions import USER_TRANSACTIONS
from perdure.testing.faults import FaultyStore

SOURCE = Path(__file__).parents[2] / "src/perdure"
ASKING = {"getattr", "hasattr"}


def looks_into_stores(tree: ast.AST) -> Iterator[int]:
    """The lines on which an attribute of a store is looked for by its name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ASKING and isinstance(node.args[0], ast.Name | ast.Attribute):
            of = ast.unparse(node.args[0]).lower()
            if "store" in of or "inner" in of or "backend" in of:
                yield node.lineno


def test_no_attribute_of_a_store_is_looked_for_by_its_name() -> None:
    sources = {path: path.read_text() for path in SOURCE.rglob("*.py")}
    asking = {path: source for path, source in sources.items() if any(f"{one}(" in source for one in ASKING)}
    found = [f"{path}:{line}" for path, source in asking.items() for line in looks_into_stores(ast.parse(source))]
    assert len(asking) > 20
    assert found == []


@pytest.mark.parametrize("code", ["getattr(store, 'vault', None)", "hasattr(self.inner, name)", "hasattr(self._store, 'join')"])
def test_the_check_catches_a_look_into_a_store(code: str) -> None:
    assert [*looks_into_stores(ast.parse(code))] == [1]


async def test_a_wrapper_hands_on_what_it_says(tmp_path: Path) -> None:
    memory, file = MemoryStore(), SqliteStore(tmp_path / "perdure.db")
    coded = EncodedStore(file, Compressed())
    transactions, joins, removal = coded.part(TRANSACTIONS), coded.part(USER_TRANSACTIONS), coded.part(BLOB_REMOVAL)
    assert isinstance(transactions, EncodedTransactions) and isinstance(joins, EncodedUserTransactions) and isinstance(removal, EncodedBlobRemoval)
    assert coded.part(VAULT) is file.part(VAULT) is not None
    plain = EncodedStore(memory, Compressed())
    assert plain.part(TRANSACTIONS) is None and plain.part(USER_TRANSACTIONS) is None
    faulty = FaultyStore(file, Random(0))
    assert faulty.part(TRANSACTIONS) is None and faulty.part(USER_TRANSACTIONS) is None
    assert faulty.part(VAULT) is file.part(VAULT) and blob_removal_of(faulty) is file.part(BLOB_REMOVAL)
    await file.close()
    assert ReadOnlySqliteStore(tmp_path / "perdure.db").part(VAULT) is None


def test_two_parts_of_one_name_are_two() -> None:
    one, other = PartName[Any]("vault"), PartName[Any]("vault")
    parts = StoreParts().having(one, "something")
    assert parts.get(one) == "something" and parts.get(other) is None
