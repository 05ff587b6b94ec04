"""Changes of a workflow by an agent that is a step of it: its running execution goes on by another definition, or one is proposed to people."""

import asyncio
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
from perdure.programs.format import patches
from perdure.programs.format.canonical import bytes_of, hash_of
from perdure.programs.format.diff import diff, rendered
from perdure.stores.base import Post, Store

ANSWER_S = 30.0
"""How long an engine is waited for that judges a patch."""

LOOK_S = 0.05


async def patch_workflow(
    operations: list[dict[str, Any]],
    scope: Literal["execution", "definition"] = "execution",
    description: str = "",
    workflow_tag: str = patches.TAG_OF_ALL,
) -> dict[str, Any]:
    """Change the workflow whose step the running agent is, which is the one that `workflow_tag` names: its execution, or, as a proposal, its definition.

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
    after = changed(before, operations, workflow_tag)
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


def changed(definition: dict[str, Any], operations: Any, workflow_tag: str = patches.TAG_OF_ALL) -> dict[str, Any]:
    """What a patch in any form that `patches` knows makes of a definition.

    Raises:
        Fatal: it can't be done, or what it makes is not valid; with all that is wrong.
    """
    try:
        return patches.changed(definition, {"workflow_tag": workflow_tag, "patch_spec": {"operations": operations}})
    except BadDefinition as error:
        raise Fatal(f"the change is not valid, and nothing was changed: {error}") from error


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
