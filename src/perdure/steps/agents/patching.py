"""Changes of a workflow by an agent that is a step of it: its running execution goes on by another definition, or one is proposed to people."""

import asyncio
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from perdure.core import events as e
from perdure.core import log, messages
from perdure.core.errors import BadDefinition, Fatal
from perdure.core.execution import Execution
from perdure.core.folding import fold
from perdure.core.mail import Send
from perdure.core.paths import Key
from perdure.core.values import intact
from perdure.programs.code.info import step_info
from perdure.programs.code.resources import opened
from perdure.programs.format.canonical import bytes_of, hash_of
from perdure.programs.format.diff import diff, rendered
from perdure.programs.format.edits import edited, patched
from perdure.stores.base import Post, Store

ANSWER_S = 30.0
"""How long an engine is waited for that judges a patch."""

LOOK_S = 0.05


async def patch_workflow(operations: list[dict[str, Any]], scope: Literal["execution", "definition"], description: str = "") -> dict[str, Any]:
    """Change the workflow whose step the running agent is: its execution, or, as a proposal, its definition.

    Returns under ``patched`` the ``hash`` of the definition by which the execution now goes on, and the ``changes``, in lines; under ``proposal`` also the
    ``definition`` that would come of it, and the hash of the one that it is based on (``base``). Done again after a crash, it finds what it has done.

    Raises:
        Fatal: the definition does not allow it, the change is not valid, or what has begun does not fit it.
        TimeoutError: no engine has judged it in time.
    """
    store, info = opened.get().store, step_info()
    if store is None:
        raise Fatal("nothing that can be changed is where this runs")
    parent = await _parent(store, info.execution)
    execution = await _read(store, parent)
    base, before = await _definition(store, execution)
    mark = f"agent {info.key}: "
    if (answer := _answered(await _events(store, parent), mark)) is not None:
        return _patched(before, before, answer)
    if not before.get("allow", {}).get("self_edit"):
        raise Fatal(f"{parent.workflow} may not be changed by its agents; its definition has to say allow: {{self_edit: true}}")
    after = changed(before, operations)
    if scope == "definition":
        return {
            "proposal": {"base": f"sha256:{base}", "hash": hash_of(after), "changes": _changes(before, after), "definition": after, "description": description}
        }
    body = messages.encode(messages.Patch(bytes_of(after), base, f"{mark}{description}"))
    _ = await store.commit([Post(sends=(Send(parent, f"patch:{info.key}", body),))])
    async with asyncio.timeout(ANSWER_S):
        while (answer := _answered(await _events(store, parent), mark)) is None:
            if (await _read(store, parent)).ended is not None:
                raise Fatal(f"{parent} has ended before it could be changed")
            await asyncio.sleep(LOOK_S)
    return _patched(before, after, answer)


def _patched(before: dict[str, Any], after: dict[str, Any], refused: tuple[str, ...]) -> dict[str, Any]:
    if refused:
        raise Fatal(f"the execution can't go on by that: {'; '.join(refused)}")
    return {"patched": {"hash": hash_of(after), "changes": _changes(before, after)}}


def _changes(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    return rendered(diff(before, after)).splitlines()


def changed(definition: dict[str, Any], operations: list[dict[str, Any]]) -> dict[str, Any]:
    """What operations make of a definition: operations by id, JSON Patch on its canonical form, or seed 004's additions to /nodes/- and /edges/-.

    Raises:
        Fatal: it can't be done, or what comes of it is not valid; with all that is wrong.
    """
    try:
        if any(str(one.get("path", "")).startswith(("/nodes", "/edges")) for one in operations):
            return edited(definition, [_by_id(one) for one in operations])
        is_patch = all(one.get("op") in ("add", "remove", "replace", "move", "copy", "test") and "path" in one for one in operations)
        return patched(definition, operations) if is_patch else edited(definition, operations)
    except BadDefinition as error:
        raise Fatal(f"the change is not valid, and nothing was changed: {error}") from error


def _by_id(operation: Mapping[str, Any]) -> dict[str, Any]:
    """An addition of a node or an edge, as seed 004 has it, as an operation by id."""
    match operation:
        case {"op": "add", "path": "/nodes/-", "value": {"type": str(), "id": str()} as node}:
            from perdure.programs.format.dialects import seed004

            read = seed004.to_definition({"nodes": [node], "edges": []})
            return {"op": "add_step", "step": {name: value for name, value in read.document["steps"][0].items() if name != "next"}}
        case {"op": "add", "path": "/nodes/-", "value": dict(step)}:
            return {"op": "add_step", "step": step}
        case {"op": "add", "path": "/edges/-", "value": {"from": source, "to": target, **more}} if set(more) <= {"port"}:
            return {"op": "connect", "from": source, "to": target, **({"port": more["port"]} if more else {})}
    if "path" in operation and str(operation["path"]).startswith(("/nodes", "/edges")):
        raise Fatal(
            f"{dict(operation)} can't be carried out: nodes and edges are added at /nodes/- and /edges/-; change others by id: set, remove_step, disconnect"
        )
    return dict(operation)


async def _parent(store: Store, key: Key) -> Key:
    started = (await _read(store, key)).started
    if started is None or started.origin is None:
        raise Fatal(f"{key} was not started by a definition, so there is none to change")
    return started.origin


async def _events(store: Store, key: Key) -> list[e.Event]:
    found = await store.read(key)
    return [] if found is None else log.decode_all(found.rows)


async def _read(store: Store, key: Key) -> Execution:
    return fold(key, await _events(store, key))


async def _definition(store: Store, execution: Execution) -> tuple[str, dict[str, Any]]:
    if execution.definition is None:
        raise Fatal(f"{execution.key} goes by code and not by a definition, so it can't be changed")
    raw = await store.blob(execution.definition.sha256)
    if raw is None:
        raise Fatal(f"the definition of {execution.key} is not kept any more")
    definition: dict[str, Any] = msgspec.json.decode(intact(execution.definition.sha256, raw))
    return execution.definition.sha256, definition


def _answered(events: list[e.Event], mark: str) -> tuple[str, ...] | None:
    """Why the patch of this mark was refused (empty: it was not); None, if it was not judged yet."""
    return next((event.refused for event in reversed(events) if isinstance(event, e.Patched) and event.reason.startswith(mark)), None)
