"""Operations on what definitions are made of: the kinds of steps, the tools of engines, and the format."""

import asyncio

from perdure.definitions.format.reference_scope import ScopedReference
from perdure.service import engine_tools, kind_list
from perdure.service.catalog import received_bytes
from perdure.service.engine_tools import ListedEngineTool
from perdure.service.kind_list import FormatDescription, KindList
from perdure.service.store_access import StoreAccess
from perdure.service.wire_types import JsonDocument


async def kinds(access: StoreAccess) -> KindList:
    """The kinds of steps that definitions may use, each with its category, the JSON Schemas of its config, input and output, its ports, a form and an example.

    These are Perdure's own verbs and kinds, and the kinds of packages that are installed in the process that answers.
    """
    return await asyncio.to_thread(kind_list.list_kinds)


async def tools(access: StoreAccess, tenant: str) -> list[ListedEngineTool]:
    """The tools that running engines have for steps of definitions in the catalog, in order of name and version."""
    return await engine_tools.list_engine_tools(access, tenant)


async def definition_format(access: StoreAccess) -> FormatDescription:
    """The format of definitions: its JSON Schema, for completion in editors, and the operators of conditions."""
    return await asyncio.to_thread(kind_list.describe_format)


async def references(access: StoreAccess, document: JsonDocument, step: str, field: str = "with") -> list[ScopedReference]:
    """The references that a field of a step may use, each with the JSON Schema of its value as far as that is known: for a picker. Nothing is stored.

    The document need not be valid, but its text has to parse.

    Raises:
        BadDefinition: the text can't be parsed.
        BadValue: there is no document.
        NotFound: it has no step of this id.
    """
    return await asyncio.to_thread(kind_list.references_in_scope, received_bytes(document), step, field)
