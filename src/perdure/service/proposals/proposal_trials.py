"""Runs a trial of a document on what the latest executions of a workflow have recorded, and says for each whether it would have gone the same way.

A trial performs no step and sends nothing: see `perdure.service.proposals.trial_run`. It reads the logs of executions that have completed or failed, and
stores nothing. A step without a recorded result ends what is known, unless the caller gives its value.
"""

from collections.abc import Mapping, Sequence
from time import monotonic
from typing import Any, Literal, NamedTuple

import msgspec

from perdure.code.durations import whole_number
from perdure.core import events as e
from perdure.core import log_format, values
from perdure.core.errors import BadValue, LogDamaged, NotFound, NotReplayable
from perdure.core.operations import Failure, Outcome
from perdure.core.paths import Key
from perdure.core.pinned_calls import Hosting
from perdure.core.program import CATALOG_PROGRAM
from perdure.core.replay import fold_events
from perdure.core.values import Blob
from perdure.definitions.format.canonical_form import definition_bytes
from perdure.definitions.graph.execution_view import ExecutionView, view_at_event
from perdure.definitions.graph.ir import IR
from perdure.definitions.graph.plan import plan_of_definition
from perdure.runtime.blob_loader import BlobCache, run_in_threads
from perdure.service import queries
from perdure.service.catalog import read_document, received_bytes
from perdure.service.catalog_calls import CallingDefinition, FoundCalls, find_calls
from perdure.service.definition_starts import release_of
from perdure.service.proposals.recorded_answers import RecordedAnswers
from perdure.service.proposals.trial_run import RecordedRun, TrialRun, TriedDefinition, UnknownStep
from perdure.service.queries import ExecutionFilter
from perdure.service.shown_values import shown_value
from perdure.service.store_access import StoreAccess
from perdure.stores.protocol import HeadFilter

EXECUTIONS_MAX = 100
TRIAL_S = 20.0
"""How long one trial works. The executions that are left then are unknown."""

ENDED = ("completed", "failed")
"""The statuses of the executions that are tried."""

NOT_RUN = frozenset(("not_taken", "not_reached", "skipped"))
"""The states of steps that have not run."""

TrialVerdict = Literal["same", "differs", "unknown"]
"""``same``: the same steps run, with the same results. ``unknown``: a step has no recorded result; what is listed is what differs before it."""


class ValueDifference(msgspec.Struct, frozen=True):
    """A value as it was recorded, and as it would have been. A long one is shortened text."""

    before: Any
    after: Any


class TrialStop(msgspec.Struct, frozen=True, kw_only=True):
    """Where a trial was asked to stop: whether the `step` had a result by then, and the results by id of all steps that had one at that moment.

    If it was not reached, they are those of where the trial ended. A long result is shortened text.
    """

    step: str
    reached: bool
    results: dict[str, Any]


class ExecutionTrial(msgspec.Struct, frozen=True, kw_only=True):
    """The trial on one execution. With a step to stop at, `stop` says what it has found there, and everything else is of the run as a whole.

    `unknown_from` is the step from which on nothing is known (None: all is), and `why` says why. `not_run` are steps that ran and would not have, `also_run`
    those that did not and would have. `results` are the results of steps that differ, by id. `status` and `result` are those of the execution, if they differ.
    """

    key: Key
    verdict: TrialVerdict
    unknown_from: str | None = None
    why: str = ""
    not_run: tuple[str, ...] = ()
    also_run: tuple[str, ...] = ()
    results: dict[str, ValueDifference] = {}
    status: ValueDifference | None = None
    result: ValueDifference | None = None
    stop: TrialStop | None = None


class TrialWish(NamedTuple):
    """What a trial is to run on, and how: the `last` executions or those of these ids, values of steps without a recorded result, and the step to stop at."""

    last: int = 10
    mocks: Mapping[str, Any] | None = None
    executions: Sequence[str] = ()
    until: str = ""


class TrialReport(msgspec.Struct, frozen=True, kw_only=True):
    """The trial of a document on the latest executions, newest first, and how many are the same, differ, or are unknown. `tried_hash` is its hash."""

    tried_hash: str
    same: int
    differing: int
    unknown: int
    items: list[ExecutionTrial]


class _Side(NamedTuple):
    """What has become of an execution: which steps have run, their results, its status and its outcome."""

    ran: frozenset[str]
    results: Mapping[str, Any]
    status: str
    outcome: Any


async def try_document(access: StoreAccess, tenant: str, slug: str, document: bytes, wish: TrialWish) -> TrialReport:
    """Runs a trial of a document on executions of a workflow that have ended.

    Raises:
        BadDefinition: the document is not valid; the error has all findings.
        BadValue: `last` is not from 1 to 100, there are too many ids, or a mock or the step to stop at is not in the document.
        NotFound: there is no execution of one of the ids that has ended.
    """
    if whole_number(wish.last, "last") > EXECUTIONS_MAX:
        raise BadValue("last", wish.last, f"a whole number from 1 to {EXECUTIONS_MAX}")
    read = await read_document(received_bytes(document), slug)
    canonical = definition_bytes(read.canonical)
    release = release_of(slug, canonical)
    ir = plan_of_definition(release.sha256, {release.sha256: canonical}).ir
    mocks = wish.mocks or {}
    expect_steps(ir, mocks, wish.until)
    found = await find_calls(access, tenant, CallingDefinition(slug, "", canonical))
    tried = TriedDefinition(release, ir, Hosting(CATALOG_PROGRAM, found.calls), {release.sha256: canonical, **found.blobs}, mocks)
    until_s, items = monotonic() + TRIAL_S, list[ExecutionTrial]()
    for key in await _keys(access, tenant, slug, wish):
        late = monotonic() >= until_s
        items.append(_unknown(key, UnknownStep("", "the trial took too long")) if late else await _tried_on(access, key, tried, found, (until_s, wish.until)))
    counts = {verdict: sum(one.verdict == verdict for one in items) for verdict in ("same", "differs", "unknown")}
    return TrialReport(tried_hash=read.hash, same=counts["same"], differing=counts["differs"], unknown=counts["unknown"], items=items)


def expect_steps(ir: IR, mocks: Mapping[str, Any], until: str = "") -> None:
    """Checks that the steps that have mocks, and the one to stop at, are in the document.

    Raises:
        BadValue: one is not.
    """
    known = {node.id for node in ir.nodes}
    if unknown := [name for name in mocks if name not in known]:
        raise BadValue("mocks", unknown[0], "the id of a step of the document")
    if until and until not in known:
        raise BadValue("until", until, "the id of a step of the document")


async def _keys(access: StoreAccess, tenant: str, slug: str, wish: TrialWish) -> list[Key]:
    """The executions to run a trial on."""
    if not wish.executions:
        return [one.key for one in await queries.list_executions(access, ExecutionFilter(tenant=tenant, workflow=slug, status=ENDED), wish.last)]
    if len(wish.executions) > EXECUTIONS_MAX:
        raise BadValue("executions", f"{len(wish.executions)} ids", f"at most {EXECUTIONS_MAX}")
    keys = tuple(Key(tenant, slug, id) for id in dict.fromkeys(wish.executions))
    ended = {head.key for head in await access.store.heads(HeadFilter(keys=keys, limit=len(keys))) if head.status in ENDED}
    if missing := [key for key in keys if key not in ended]:
        raise NotFound(
            missing[0], f"{slug} has no execution {missing[0].id[:200]!r} that has completed or failed, and a trial needs what such a one has recorded"
        )
    return list(keys)


def _unknown(key: Key, unknown: UnknownStep) -> ExecutionTrial:
    return ExecutionTrial(key=key, verdict="unknown", unknown_from=unknown.step, why=unknown.why)


async def _tried_on(access: StoreAccess, key: Key, tried: TriedDefinition, found: FoundCalls, bounds: tuple[float, str]) -> ExecutionTrial:
    """The trial on one execution. `bounds` are the time until which it may work, and the step to stop at."""
    until_s, until = bounds
    stored = await access.store.read(key)
    events = [] if stored is None else log_format.decode_rows(stored.payloads)
    execution = fold_events(key, events)
    if execution.started is None or execution.ended is None or execution.removed is not None:
        return _unknown(key, UnknownStep("", "its log is not there any more"))
    if execution.definition is None:
        return _unknown(key, UnknownStep("", "it ran code"))
    payloads = BlobCache(access.store)
    try:
        before = await run_in_threads(payloads, view_at_event(key, events, len(events)))
        assert before is not None, "it has begun"
        calls = {one.target: one for one in (*found.calls, *execution.calls)}  # what it called then, in the versions of then
        run = TrialRun(
            tried._replace(hosting=Hosting(CATALOG_PROGRAM, tuple(calls.values()))),
            RecordedRun(events, execution, RecordedAnswers(events, execution, before.ir, payloads)),
            payloads,
        )
        await run.run(until_s)
        after = await run_in_threads(payloads, view_at_event(key, run.events, len(run.events)), run.blobs) if run.events else None
    except (NotReplayable, LogDamaged) as error:
        return _unknown(key, UnknownStep("", f"its log can't be read: {error}"))
    if after is None:
        return _unknown(key, run.unknown or UnknownStep("", "it does not begin"))
    sides = [await _side(payloads, {}, before, execution.ended), await _side(payloads, run.blobs, after, run.execution.ended)]
    compared = _compared(key, sides[0], sides[1], run.unknown)
    return compared if not until else msgspec.structs.replace(compared, stop=await _stop(payloads, key, run, after, until))


async def _stop(payloads: BlobCache, key: Key, run: TrialRun, after: ExecutionView, step: str) -> TrialStop:
    """What was known when a step had its first result: the earliest event after which it has one is looked for by halving."""
    if step not in after.tokens.outputs:
        return TrialStop(step=step, reached=False, results=_shown_results(after))
    low, high, found = 1, len(run.events), after
    while low < high:
        middle = (low + high) // 2
        view = await run_in_threads(payloads, view_at_event(key, run.events, middle), run.blobs)
        if view is not None and step in view.tokens.outputs:
            high, found = middle, view
        else:
            low = middle + 1
    return TrialStop(step=step, reached=True, results=_shown_results(found))


def _shown_results(view: ExecutionView) -> dict[str, Any]:
    return {id: shown_value(value) for id, value in view.tokens.outputs.items()}


async def _side(payloads: BlobCache, blobs: Mapping[str, bytes], view: ExecutionView, ended: e.EndedEvent | None) -> _Side:
    ran = frozenset(id for id, state in view.states.items() if state not in NOT_RUN)
    outcome = None if ended is None else await shown_outcome(payloads, blobs, ended.outcome)
    return _Side(ran, view.tokens.outputs, "" if ended is None else ended.status, outcome)


async def shown_outcome(payloads: BlobCache, blobs: Mapping[str, bytes], outcome: Outcome) -> Any:
    """The result of an execution, or the type and the message of its error."""
    if isinstance(outcome, Failure):
        return {"error": outcome.error.type, "message": outcome.error.message}
    value = outcome.value
    raw = value if not isinstance(value, Blob) else blobs.get(value.sha256) or await payloads.get(value.sha256)
    return values.decode(raw, Any, "the result")


def _compared(key: Key, before: _Side, after: _Side, unknown: UnknownStep | None) -> ExecutionTrial:
    """What differs. If the trial stopped, only what has run until then is compared."""
    results = {
        id: _difference(before.results.get(id), after.results[id])
        for id in after.results
        if id in after.ran and id in before.ran and id in before.results and before.results[id] != after.results[id]
    }
    not_run = () if unknown is not None else tuple(sorted(before.ran - after.ran))
    also_run = tuple(sorted(after.ran - before.ran - ({unknown.step} if unknown is not None else set())))
    has_ended = unknown is None
    status = _difference(before.status, after.status) if has_ended and before.status != after.status else None
    result = _difference(before.outcome, after.outcome) if has_ended and before.outcome != after.outcome else None
    differs = bool(results or not_run or also_run or status or result)
    return ExecutionTrial(
        key=key,
        verdict="unknown" if unknown is not None else "differs" if differs else "same",
        unknown_from=None if unknown is None else unknown.step,
        why="" if unknown is None else unknown.why,
        not_run=not_run,
        also_run=also_run,
        results=results,
        status=status,
        result=result,
    )


def _difference(before: Any, after: Any) -> ValueDifference:
    return ValueDifference(shown_value(before), shown_value(after))
