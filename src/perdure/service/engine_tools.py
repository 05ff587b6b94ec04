"""Lists the tools that running engines have for definitions of the catalog."""

import msgspec

from perdure.core.program import CATALOG_PROGRAM
from perdure.definitions.graph.requirements import TOOL_PREFIX
from perdure.runtime import holder
from perdure.service.store_access import StoreAccess


class ListedEngineTool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that steps of definitions may call: its name, its version (None: it has none), and the engines that have it."""

    name: str
    version: int | None
    engines: list[str]


async def list_engine_tools(access: StoreAccess, tenant: str) -> list[ListedEngineTool]:
    """The tools that running engines have for definitions of the catalog of a tenant, in order of name and version."""
    found = dict[tuple[str, int | None], list[str]]()
    for lease in await access.store.leases():
        process = holder.decode_process_info(lease.about) if lease.alive else None
        if process is None or process.roots is not None or not process.serves(tenant):
            continue
        for name in {one for programs, has in process.toolboxes if any(program.startswith(CATALOG_PROGRAM) for program in programs) for one in has}:
            if name.startswith(TOOL_PREFIX):
                found.setdefault(_named(name.removeprefix(TOOL_PREFIX)), []).append(lease.holder)
    versioned = {name for name, version in found if version is not None}
    kept = {key: engines for key, engines in found.items() if key[1] is not None or key[0] not in versioned}
    order = sorted(kept, key=lambda key: (key[0], key[1] or 0))
    return [ListedEngineTool(name=name, version=version, engines=sorted(kept[name, version])) for name, version in order]


def _named(text: str) -> tuple[str, int | None]:
    name, _, version = text.rpartition("@")
    return (name, int(version)) if name and version.isdecimal() else (text, None)
