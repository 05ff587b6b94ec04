"""Claims about references: which version each form names, and what an error lists."""

import pytest

from perdure.core.errors import Ambiguous, BadValue, NotFound
from perdure.service import catalog
from perdure.service.catalog_records import VERSIONS
from perdure.service.catalog_references import CatalogReference, parse_reference, resolve_reference
from perdure.service.record_kinds import post_records
from perdure.service.store_access import StoreAccess
from perdure.stores.memory import MemoryStore
from tests.service.catalog_documents import ADA, document

T = "acme"


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("invoice", CatalogReference("invoice")),
        ("invoice@1.2.0", CatalogReference("invoice", "1.2.0")),
        ("invoice@>=1.2 <3", CatalogReference("invoice", ">=1.2 <3")),
        ("invoice@sha256:0123456789ab", CatalogReference("invoice", "sha256:0123456789ab")),
        ("invoice:production", CatalogReference("invoice", "", "production")),
    ],
)
def test_a_reference_has_a_name_and_at_most_one_more_part(text: str, parts: CatalogReference) -> None:
    assert parse_reference(text) == parts


@pytest.mark.parametrize(
    "text",
    [
        "",
        "@1",
        "a@",
        "a:",
        ":a",
        "a@b",
        "a:b@1",
        "a@1:b",
        "a@sha256:0123456789a",
        "a@sha256:0123456789AB",
        "a@sha256:" + 65 * "0",
        "a/b",
        "a\0",
        "a:1",
        "a@1." + 5_000 * "9",
    ],
)
def test_a_text_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(BadValue):
        parse_reference(text)


@pytest.fixture
async def access() -> StoreAccess:
    """Versions 1.0.0, 1.1.0, 1.2.0, 2.0.0-rc1, 2.0.0 and 2.1.0, whose results are 1 to 6; `stable` is 1.2.0."""
    access = StoreAccess(MemoryStore())
    _ = await catalog.create_definition(access, T, document(1), ADA)
    for value, version in ((2, ""), (3, ""), (4, "2.0.0-rc1"), (5, "2.0.0"), (6, "")):
        _ = await catalog.update_definition(access, T, "invoice", ADA, document(value, version=version))
    _ = await catalog.move_tag(access, T, "invoice", "stable", ADA, "1.2.0")
    return access


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("invoice", "2.1.0"),
        ("invoice@1.1.0", "1.1.0"),
        ("invoice@^1", "1.2.0"),
        ("invoice@~1.1", "1.1.0"),
        ("invoice@1.x", "1.2.0"),
        ("invoice@2.0", "2.0.0"),
        ("invoice@*", "2.1.0"),
        ("invoice@2.0.0-rc1", "2.0.0-rc1"),
        ("invoice:stable", "1.2.0"),
    ],
)
async def test_a_reference_names_one_version(access: StoreAccess, text: str, version: str) -> None:
    found = await resolve_reference(access.store, T, text)
    assert found.version == version
    by_hash = await resolve_reference(access.store, T, f"invoice@{found.hash[:19]}")
    assert (by_hash.version, by_hash.hash) == (version, found.hash)


async def test_a_reference_to_an_id_is_one_to_its_definition(access: StoreAccess) -> None:
    made = await catalog.read_definition(access, T, "invoice")
    assert (await resolve_reference(access.store, T, f"{made.id}@^1")).version == "1.2.0"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("invoise", "there is no definition 'invoise'. Did you mean 'invoice'?"),
        ("zzz", "there is no definition 'zzz'. There are: invoice"),
        ("invoice@3.0.0", "invoice has no version 3.0.0. There are: 2.1.0, 2.0.0, 2.0.0-rc1, 1.2.0, 1.1.0, 1.0.0"),
        ("invoice@^3", "invoice has no version ^3. There are: 2.1.0"),
        ("invoice@sha256:000000000000", "There are: 2.1.0"),
        ("invoice:prod", "invoice has no tag 'prod'. Its tags are: stable"),
    ],
)
async def test_an_error_lists_what_there_is(access: StoreAccess, text: str, message: str) -> None:
    with pytest.raises(NotFound) as refused:
        await resolve_reference(access.store, T, text)
    assert message in str(refused.value)


async def test_a_hash_that_several_versions_begin_with_is_ambiguous(access: StoreAccess) -> None:
    (one, *_) = await VERSIONS.page(access.store, T, "invoice/")
    twin = one.value.hash[:-1] + ("0" if one.value.hash[-1] != "0" else "1")
    await post_records(access.store, [VERSIONS.change(T, f"invoice/{twin.removeprefix('sha256:')}", 0, one.value)])
    with pytest.raises(Ambiguous, match=r"matches several versions of invoice: .* Give more digits"):
        await resolve_reference(access.store, T, f"invoice@{twin[:40]}")
    assert (await resolve_reference(access.store, T, f"invoice@{one.value.hash}")).hash == one.value.hash
