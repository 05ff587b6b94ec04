"""Checks whether code would replay the executions of a store, as an engine would when it claims them.

Only the workflow functions run, up to the present position of their executions. Nothing is decided, sent or written.
"""

from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from typing import Literal

import msgspec

from perdure.core import events as e
from perdure.core import log_format
from perdure.core.errors import Diverged, PerdureError, ProgrammingError, StoreUnavailable
from perdure.core.execution import Execution
from perdure.core.paths import Key, path_text
from perdure.core.program import program_base, program_name
from perdure.core.replay import replay_program
from perdure.definitions.kinds.deployment import NOTHING_MORE
from perdure.runtime.blob_loader import BlobCache, run_with_blobs
from perdure.runtime.execution_results import ENDED_STATUSES
from perdure.runtime.registrations import BUILT_IN_WORKFLOWS
from perdure.runtime.workflow_programs import Workflow, explain_divergence, program_of
from perdure.service.queries import STATUSES
from perdure.service.service_workflows import SERVICE_WORKFLOWS
from perdure.service.store_access import head_pages
from perdure.stores.protocol import Head, HeadFilter, ReadOnlyStore

UNENDED_STATUSES = frozenset(STATUSES) - ENDED_STATUSES

ReplayVerdict = Literal["fits", "diverges", "unadvertised", "unknown", "unreadable"]
"""``fits``: the code replays it. ``diverges``: it asks for another operation than the log holds. ``unadvertised``: it does not replay the pinned version.
``unknown``: there is no such workflow. ``unreadable``: the log, or a blob that it refers to, cannot be read.
"""


class ReplayCheck(msgspec.Struct, frozen=True):
    """The result for one execution. `path` is where the code diverges, `diff` how, in words; `advice` has one possible remedy per line."""

    key: Key
    status: str
    workflow_version: int
    verdict: ReplayVerdict
    path: str = ""
    diff: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()


class ReplayFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Selects executions that have not ended and, with `failed`, those that have failed; with `limit`, the newest of them."""

    tenant: str
    workflow: str | None = None
    failed: bool = False
    limit: int | None = None


class ReplayInput(msgspec.Struct, frozen=True):
    """The log and the status of an execution, as the input of a replay."""

    key: Key
    root: Key
    program: str
    status: str
    events: Sequence[e.Event]


def workflows_by_name(workflows: Iterable[Workflow]) -> dict[str, Workflow]:
    """Workflows by name, including Perdure's own."""
    from perdure.service.proposal_agent.proposal_agent_workflow import proposal_agent_workflow  # here, as it loads what agents need

    own = proposal_agent_workflow(NOTHING_MORE, {})  # a replay calls no model
    return {one.name: one for one in (*BUILT_IN_WORKFLOWS, *SERVICE_WORKFLOWS, own, *workflows)}


async def choose_heads(store: ReadOnlyStore, which: ReplayFilter) -> list[Head]:
    """The heads of the selected executions, newest first."""
    statuses = UNENDED_STATUSES | {"failed"} if which.failed else UNENDED_STATUSES
    found: list[Head] = []
    async for page in head_pages(store, HeadFilter(tenant=which.tenant, workflow=which.workflow, statuses=statuses)):
        found += page
        if which.limit is not None and len(found) >= which.limit:
            break
    return found[: which.limit]


async def check_executions(store: ReadOnlyStore, workflows: Mapping[str, Workflow], heads: Iterable[Head]) -> AsyncGenerator[ReplayCheck, None]:
    """Checks each of these executions against `workflows`. Those that were removed or have ended in the meantime are left out."""
    payloads = BlobCache(store)
    for head in heads:
        found = await store.read(head.key)
        if found is None or (found.head.status in ENDED_STATUSES and found.head.status != head.status):
            continue
        now = found.head
        try:
            events = log_format.decode_rows(found.payloads)
        except PerdureError as error:
            yield _unreadable(now.key, now.status, now.program, error)
            continue
        yield await check_execution(payloads, workflows, ReplayInput(now.key, now.root, now.program, now.status, events))


async def check_execution(payloads: BlobCache, workflows: Mapping[str, Workflow], one: ReplayInput) -> ReplayCheck:
    """Checks one execution by its log.

    Raises:
        StoreUnavailable: its blobs cannot be read now.
    """
    code, version = workflows.get(one.key.workflow), _version(one.program)
    if code is None:
        return ReplayCheck(one.key, one.status, version, "unknown")
    if one.program not in code.programs:
        replayed = ", ".join(sorted(program_name(code.name, known) for known in {code.version, *code.replays}))
        why = f"{one.program} is pinned, and the code replays {replayed}"
        return ReplayCheck(one.key, one.status, version, "unadvertised", "", (why,), _PIN.get(one.status == "failed", ()) + _advice_of_version(code, version))
    try:
        diverged = await _replay_with(payloads, code, one)
    except StoreUnavailable:
        raise
    except Exception as error:  # any error of the log or the code concerns this execution alone; the others must still be checked
        return _unreadable(one.key, one.status, one.program, error)
    if diverged is None:
        return ReplayCheck(one.key, one.status, version, "fits")
    return ReplayCheck(one.key, one.status, version, "diverges", path_text(diverged.path), diverged.diff, divergence_advice(one, diverged.diff))


async def _replay_with(payloads: BlobCache, code: Workflow, one: ReplayInput) -> Diverged | None:
    execution, instance = Execution(one.key, one.root), program_of(code, one.key)
    try:
        diverged = await run_with_blobs(payloads, replay_program(execution, one.events, instance, awake=True))
        if diverged is None:
            return None
        return Diverged(diverged.path, await run_with_blobs(payloads, explain_divergence(code, one.key, one.events, diverged)))
    finally:
        instance.close()


def divergence_advice(one: ReplayInput, diff: Sequence[str]) -> tuple[str, ...]:
    """The possible remedies for a divergence, one per line."""
    if one.status == "failed":
        return ("nothing, if it should not continue: a retry runs the new code, and reuses the result of each step that is still at its place",)
    if one.status in ENDED_STATUSES:
        return ("nothing, if the change is intended: it has ended, and is not replayed any more",)
    kinds = {line.partition(":")[0] for line in diff}
    found = [line for kind, line in _WAYS if kinds & kind]
    name = one.key.workflow
    higher = f"or give {name} a higher version, and leave version {_version(one.program) or 1} to engines with the old code until these have ended"
    return (*(found or [_GATE]), higher, f"or fork it on the new code: perdure fork {one.key.id}, with --from where it differs")


_GATE = 'gate the change: if await ctx.version("change", 2) >= 2: the new way, else the old one'
_WAYS: tuple[tuple[frozenset[str], str], ...] = (
    (frozenset(("removed",)), 'stand in for what was removed: await ctx.removed("name", "step")'),
    (frozenset(("renamed", "other target")), 'keep the old name: ctx.step("old name", new_function)'),
    (frozenset(("inserted", "replaced", "reordered", "renamed", "other target", "other branches", "fails")), _GATE),
)
"""Remedies by the kinds of differences."""

_PIN: dict[bool, tuple[str, ...]] = {True: ("nothing, if it is not to be retried",)}


def _advice_of_version(code: Workflow, version: int) -> tuple[str, ...]:
    replays = ", ".join(map(str, sorted({*code.replays, version})))
    return (
        f"keep an engine with the code of version {version} until it has ended",
        f"or say that this code replays it: @workflow(version={code.version}, replays=[{replays}])",
    )


def _unreadable(key: Key, status: str, pinned: str, error: Exception) -> ReplayCheck:
    said = str(error) if isinstance(error, PerdureError) else f"{type(error).__name__}: {error}"
    what = "fix the code" if isinstance(error, ProgrammingError) or not isinstance(error, PerdureError) else f"perdure verify {key.id} examines its records"
    return ReplayCheck(key, status, _version(pinned), "unreadable", "", (said,), (what,))


def _version(pinned: str) -> int:
    version = program_base(pinned).rpartition("@")[2]
    return int(version) if version.isascii() and version.isdigit() else 0
