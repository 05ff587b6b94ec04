"""The workflow that does something to all executions of a filter: in pieces, across crashes, with progress that is shown, and until it is cancelled.

A piece is a page of the list of executions, newest first, read by its position. Executions that are created meanwhile come before it, so each execution is met
once. What has another effect the second time, such as a retry, is posted together with a record of its piece, so that a piece which is performed again after a
crash is found to be done. Everything else is harmless to repeat.

Commands that end executions go over the list twice, roots first, so that a parent does not see its children end before it is told itself.
"""

from collections import Counter
from datetime import UTC, datetime
from typing import Any, Literal, get_args

import msgspec

from perdure.code.context import Context
from perdure.code.declarations import CodeWorkflow, checked_name, step
from perdure.code.step_environment import current_resources, step_info
from perdure.core import messages, values
from perdure.core.errors import BadValue, InputDiffers, PerdureError, StoreMoved, StoreUnavailable
from perdure.core.operations import BULK_WORKFLOW
from perdure.core.paths import Key
from perdure.runtime.workflow_programs import encode_input
from perdure.service import bulk_requests, dead_letter_groups, execution_requests, queries, retention
from perdure.service.bulk_requests import NEWEST_FIRST, STATUSES_BY_OPERATION, BulkOperation, BulkResult, bulk_operation, make_requests
from perdure.service.execution_operations import StartRequest
from perdure.service.execution_records import read_input
from perdure.service.execution_requests import ExecutionRequest
from perdure.service.page_cursors import cursor_text, parse_cursor
from perdure.service.queries import ExecutionFilter
from perdure.service.record_kinds import RecordKind
from perdure.service.store_access import StoreAccess
from perdure.service.wire_types import NOTHING, EncodedValue
from perdure.stores.protocol import Committed, Head, HeadFilter, Post, Store
from perdure.stores.records import Stale

PIECE = 200
"""How many executions one piece has."""

FAILURES_SHOWN = 100
"""How many failures are in the progress. The stream of the bulk execution has all."""

PIECE_KEPT_S = 7 * 86_400.0
"""How long the record of a piece is kept. A piece is performed again within seconds after a crash, once an engine runs."""

LATEST_S = 253_000_000_000.0
"""About the last time that a calendar has."""

BulkAction = Literal["cancel", "terminate", "pause", "resume", "retry", "undo", "requeue", "discard", "send", "prune"]
"""What can be done to the executions of a filter. ``prune`` removes the logs of those that have ended."""

ENDING = frozenset(("cancel", "terminate", "discard"))
EXACTLY_ONCE = frozenset(("resume", "retry", "undo", "requeue"))


class BulkOrder(msgspec.Struct, frozen=True, kw_only=True):
    """What is done to which executions. `undo` is for ``cancel``, `from_step` for ``retry``, `signal` and `body` for ``send``, and `edits` of the input and a
    `version` of the code for ``requeue``.

    A filter without a status selects the statuses in which the action has an effect.
    """

    action: BulkAction
    which: ExecutionFilter
    reason: str = ""
    undo: bool = True
    from_step: str | None = None
    signal: str = ""
    body: EncodedValue = NOTHING
    edits: dict[str, EncodedValue] = {}
    version: int | None = None


class BulkFailure(msgspec.Struct, frozen=True):
    """An execution for which the action failed, and why: the code and the message of the error."""

    workflow: str
    id: str
    code: str
    message: str


class BulkProgress(msgspec.Struct, frozen=True):
    """How far a bulk execution is. Of `total` executions, which were counted at its start, `done` have the request, `passed` had ended before or need nothing,
    and for `failed` it could not be made; `left` are to come. `failures` has the first of the failed ones.
    """

    total: int
    done: int = 0
    passed: int = 0
    failed: int = 0
    left: int = 0
    failures: tuple[BulkFailure, ...] = ()


class BulkCount(msgspec.Struct, frozen=True):
    """How many executions a bulk execution would act on, in all and by status, and the newest of them."""

    total: int
    statuses: dict[str, int]
    newest: list[Key]


class BulkPiece(msgspec.Struct, frozen=True):
    """The outcome of one piece, and the position of the next one (empty: there is none)."""

    number: int
    done: int
    passed: int
    failures: tuple[BulkFailure, ...]
    after: str


BULK_PIECES = RecordKind("bulk piece", BulkPiece, audited=False, expires=True)
"""The last piece of each bulk execution whose action is carried out exactly once, by the id of that."""


class _Place(msgspec.Struct, frozen=True):
    """Where a bulk execution is: the number of the next piece, its position, and whether this is the round of roots, of the others, or of all."""

    number: int
    after: str
    part: Literal["roots", "others", "all"]


class _Turn(msgspec.Struct, frozen=True):
    progress: BulkProgress
    place: _Place


async def checked_order(access: StoreAccess, order: BulkOrder) -> BulkOrder:
    """Returns an order whose filter names statuses, and whose times are fixed.

    Raises:
        BadValue: the action is none, or lacks the name of its message, or its message is too large.
    """
    if order.action not in (known := get_args(BulkAction)):
        raise BadValue("action", order.action, f"one of {', '.join(known)}")
    if (order.action == "send") != bool(order.signal):
        raise BadValue("signal", order.signal, "the name of a message with the action send, and not given with any other")
    if values.offload_if_large(order.body, {}) is not order.body:
        raise BadValue("body", f"{len(order.body):,} bytes", "small: what is sent to many executions is stored for each. Send where it is to be found")
    if (order.edits or order.version is not None) and order.action != "requeue":
        raise BadValue("edits" if order.edits else "version", order.action, "given with the action requeue, and not with any other")
    if order.which.order_by is not None:
        raise BadValue("order_by", order.which.order_by, "not given: a bulk execution begins with the newest")
    status = order.which.status or tuple(sorted(_statuses(order.action)))
    now_s = (await access.store.store_time()).now_s
    since, failed_since = _fixed_time(order.which.since, now_s), _fixed_time(order.which.failed_since, now_s)
    return msgspec.structs.replace(order, which=msgspec.structs.replace(order.which, status=status, since=since, failed_since=failed_since))


def _fixed_time(since: float | datetime | None, now_s: float) -> datetime | None:
    """A time that is given as one, or as a number of seconds before now."""
    if since is None or isinstance(since, datetime):
        return since
    return datetime.fromtimestamp(min(max(now_s - since, 0.0), LATEST_S), UTC)


def _statuses(action: BulkAction) -> frozenset[str]:
    if action == "prune":
        return retention.PRUNED_STATUSES
    return frozenset(bulk_requests.UNENDED if action == "send" else STATUSES_BY_OPERATION[action])


async def count_selected(access: StoreAccess, order: BulkOrder) -> BulkCount:
    """Counts the executions that an order, which was checked, selects now."""
    statuses, newest, after = Counter[str](), list[Key](), ""
    while True:
        page = await queries.list_executions(access, order.which, bulk_requests.BULK_BATCH, parse_cursor(after))
        statuses.update(one.status for one in page)
        newest += [one.key for one in page[: FAILURES_SHOWN - len(newest)]]
        if len(page) < bulk_requests.BULK_BATCH:
            return BulkCount(statuses.total(), dict(sorted(statuses.items())), newest)
        after = cursor_text(queries.position_behind(page[-1], order.which))


def bulk_start(tenant: str, id: str, order: BulkOrder) -> StartRequest:
    """The start of a bulk execution."""
    return StartRequest(key=Key(tenant, BULK_WORKFLOW, checked_name(id, "id")), input=encode_input(BULK_CODE, (order,), {}, "start"))


async def expect_same_order(access: StoreAccess, key: Key, asked: ExecutionFilter, order: BulkOrder) -> None:
    """Checks that a bulk execution which exists has an order that was made of the filter `asked`. A time before now is another one with each request.

    Raises:
        InputDiffers: it has another order.
    """
    raw = await read_input(access, key)
    if raw is None:
        return
    (found,), _ = values.decode(raw, tuple[tuple[BulkOrder], dict[str, Any]], f"the input of {key}")
    times = {name: getattr(found.which, name) for name in ("since", "failed_since") if isinstance(getattr(asked, name), int | float)}
    if found != msgspec.structs.replace(order, which=msgspec.structs.replace(order.which, **times)):
        raise InputDiffers(key, "order", "Use a new id for another order")


# The workflow


@step(name="bulk_count")
async def _count(order: BulkOrder) -> int:
    return (await count_selected(StoreAccess(_store()), order)).total


@step(name="bulk_piece")
async def _piece(order: BulkOrder, place: _Place) -> BulkPiece:
    access, own = StoreAccess(_store()), step_info().execution
    before = await BULK_PIECES.read(access.store, own.tenant, own.id)
    if before is not None and before.value.number == place.number:
        return before.value
    page = await queries.list_executions(access, order.which, PIECE, parse_cursor(place.after))
    after = cursor_text(queries.position_behind(page[-1], order.which)) if len(page) == PIECE else ""
    keys = [one.key for one in page if one.key != own]
    heads = await access.store.heads(HeadFilter(keys=tuple(keys), limit=len(keys))) if keys else []
    chosen = [head for head in heads if place.part == "all" or (head.root == head.key) == (place.part == "roots")]
    if order.action == "prune":
        removed = await retention.prune_heads(access.store, chosen)
        return BulkPiece(place.number, len(removed), len(chosen) - len(removed), (), after)
    if order.edits or order.version is not None:
        return await _requeued_anew(access, order, place, chosen, after)
    result = BulkResult([], [], {})
    made = await make_requests(access, [head.key for head in chosen], _operation(order, own), result)
    failures = tuple(BulkFailure(key.workflow, key.id, error.code, str(error)) for key, error in result.failed.items())
    piece = BulkPiece(place.number, len(made), len(result.ended), failures, after)
    if order.action not in EXACTLY_ONCE:
        await execution_requests.post_requests(access, made)
        return piece
    return await _posted_once(access.store, own, made, piece, 0 if before is None else before.version)


async def _requeued_anew(access: StoreAccess, order: BulkOrder, place: _Place, chosen: list[Head], after: str) -> BulkPiece:
    """Starts a new execution in the place of each dead letter. It is harmless to repeat: the same edits of one execution start one new execution."""
    failures = list[BulkFailure]()
    for head in chosen:
        try:
            _ = await dead_letter_groups.requeue_dead_letter(access, head.key, order.reason, edits=order.edits, version=order.version)
        except (StoreUnavailable, StoreMoved):
            raise
        except PerdureError as error:
            failures.append(BulkFailure(head.key.workflow, head.key.id, error.code, str(error)))
    return BulkPiece(place.number, len(chosen) - len(failures), 0, tuple(failures), after)


async def _posted_once(store: Store, own: Key, made: list[ExecutionRequest], piece: BulkPiece, version: int) -> BulkPiece:
    """Posts requests and the record of their piece, unless that is there already: an attempt that was taken for lost has posted it meanwhile."""
    expires_at_s = (await store.store_time()).now_s + PIECE_KEPT_S
    record = BULK_PIECES.change(own.tenant, own.id, version, piece, expires_at_s=expires_at_s)
    (answer,) = await store.commit([Post(messages=tuple(send for one in made for send in one.post.messages), records=(record,))])
    if isinstance(answer, Committed):
        return piece
    found = await BULK_PIECES.read(store, own.tenant, own.id) if isinstance(answer, Stale) else None
    if found is None or found.value.number != piece.number:
        raise PerdureError(f"the store did not take a piece of {own} and answered {type(answer).__name__}")
    return found.value


def _operation(order: BulkOrder, own: Key) -> BulkOperation:
    if order.action != "send":
        assert order.action != "prune", "it has no requests"
        return bulk_operation(order.action, order.reason, order.undo, order.from_step)
    signal = messages.SignalMessage(order.signal, order.body, f"bulk:{own.id}")  # received once, however often it is sent

    async def request(_: StoreAccess, head: Head) -> ExecutionRequest | None:
        return msgspec.structs.replace(execution_requests.message_request(head, signal, "send"), message_key=f"message:{signal.key}")

    return BulkOperation("send", request)


def _store() -> Store:
    store: Store = current_resources.get().store
    return store


async def _bulk_workflow(ctx: Context, order: BulkOrder) -> BulkProgress:
    total = await ctx.step(_count, order)
    progress = BulkProgress(total, left=total)
    ctx.set("progress", progress)
    first = _Place(1, "", "roots" if order.action in ENDING else "all")
    async for turn in ctx.loop("pieces", state=_Turn(progress, first), keep=1):
        place = turn.state.place
        piece = await turn.step(_piece, order, place)
        progress = _added(turn.state.progress, piece)
        for failure in piece.failures:
            turn.emit(failure)
        following = _following(place, piece)
        if following is None:
            progress = msgspec.structs.replace(progress, left=0)
        turn.set("progress", progress)
        turn.state = _Turn(progress, following or place)
        if following is None:
            break
    return progress


def _added(before: BulkProgress, piece: BulkPiece) -> BulkProgress:
    done, passed, failed = before.done + piece.done, before.passed + piece.passed, before.failed + len(piece.failures)
    failures = (*before.failures, *piece.failures[: FAILURES_SHOWN - len(before.failures)])
    return BulkProgress(before.total, done, passed, failed, max(0, before.total - done - passed - failed), failures)


def _following(place: _Place, piece: BulkPiece) -> _Place | None:
    if piece.after:
        return _Place(place.number + 1, piece.after, place.part)
    return _Place(place.number + 1, "", "others") if place.part == "roots" else None


BULK_CODE = CodeWorkflow(_bulk_workflow, BULK_WORKFLOW)
"""The workflow of bulk executions. Engines that run code of users have it as well."""

assert NEWEST_FIRST <= EXACTLY_ONCE, "what begins with the newest goes over the list once"
