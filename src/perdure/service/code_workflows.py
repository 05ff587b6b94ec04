"""Lists the workflows of code that running engines declare, beside the definitions of the catalog."""

from typing import Any, Literal

import msgspec

from perdure.core.program import CATALOG_PROGRAM, program_base
from perdure.runtime import holder
from perdure.service.queries import INTERNAL_WORKFLOWS
from perdure.service.store_access import StoreAccess
from perdure.stores.protocol import Store


class ListedCodeWorkflow(msgspec.Struct, frozen=True, kw_only=True):
    """A workflow of code: its name, its version, the JSON Schema of its input by name (None: its engines do not tell it), and the engines that run it.

    `message_schemas` are the JSON Schemas of the messages that it may receive, by name, as far as its code names their types. Several versions of one name are
    listed each for itself.
    """

    slug: str
    version: int
    input_schema: dict[str, Any] | None
    engines: list[str]
    message_schemas: dict[str, Any] = {}
    kind: Literal["code"] = "code"


async def list_code_workflows(access: StoreAccess, tenant: str, text: str = "") -> list[ListedCodeWorkflow]:
    """The workflows of code that running engines have for a tenant, in order of name and version: those with `text` in their names, whatever its case."""
    engines, schemas, received = dict[tuple[str, int], list[str]](), dict[tuple[str, int], dict[str, Any]](), dict[tuple[str, int], dict[str, Any]]()
    for lease in await access.store.leases():
        process = holder.decode_process_info(lease.about) if lease.alive else None
        if process is None or process.roots is not None or not process.serves(tenant):
            continue
        for program in process.programs:
            name, _, version = program_base(program).rpartition("@")
            is_own = name.startswith(CATALOG_PROGRAM) or name in INTERNAL_WORKFLOWS
            if not version.isdecimal() or name in process.definitions or is_own or text.casefold() not in name.casefold():
                continue
            engines.setdefault((name, int(version)), []).append(lease.holder)
            if (schema := process.inputs.get(program)) is not None:
                schemas[name, int(version)] = schema
            if (schema := process.messages.get(program)) is not None:
                received[name, int(version)] = schema
    return [
        ListedCodeWorkflow(
            slug=name, version=version, input_schema=schemas.get((name, version)), engines=sorted(having), message_schemas=received.get((name, version), {})
        )
        for (name, version), having in sorted(engines.items())
    ]


async def message_schemas_of(store: Store, program: str) -> dict[str, Any]:
    """The JSON Schemas of the messages that a program of code may receive, by name, as a running engine tells them; none if no engine does."""
    processes = (holder.decode_process_info(lease.about) for lease in await store.leases() if lease.alive)
    return next((one.messages[program] for one in processes if one is not None and program in one.messages), {})
