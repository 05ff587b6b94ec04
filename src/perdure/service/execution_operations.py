"""Operations on executions: start them, send messages and commands, and wait for replies.

Each operation posts messages under idempotency keys, so they arrive once and whole. When it returns, the message is durable; an engine acts on it later.

Starts and messages can take part in a transaction that the caller has open on the store's database. Nothing begins before that transaction commits, so
nothing can be waited for in it.

The reply to a message is found in the log: the message arrives there under a number, and the workflow completes it by keeping a value of that number.
"""

import asyncio
import inspect
import secrets
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import Any, TypeGuard, cast
from uuid import uuid4

import msgspec

from perdure.code.call_options import DEFAULT_TENANT, NamedWorkflow, refuse_ineffective_options
from perdure.code.carried_context import captured_context
from perdure.code.declarations import Signal, checked_name
from perdure.code.declared_queues import Queue
from perdure.code.message_validation import rejection_of, validators_of
from perdure.core import compaction, log_format, messages, values
from perdure.core import events as e
from perdure.core.attributes import (
    Attributes,
    ShownAttributes,
    attribute_values,
    checked_attribute_changes,
    index_attributes,
    indexed_attribute_values,
    merge_attributes,
)
from perdure.core.carried import Carried
from perdure.core.envelopes import NewExecution, OutgoingMessage, StartAdmission
from perdure.core.errors import BadValue, HasEnded, InputDiffers, MessageRejected, NotFound, StoreUnavailable, TooManyActive, Undecodable, WrongVerb
from perdure.core.messages import ExecutionMessage
from perdure.core.paths import Key
from perdure.core.pinned_calls import Hosting, PinnedCalls
from perdure.core.program import program_name
from perdure.core.values import Value
from perdure.runtime.engine import Engine
from perdure.runtime.execution_results import ENDED_STATUSES
from perdure.runtime.registrations import queue_limits
from perdure.runtime.replies import ReplySearch
from perdure.runtime.workflow_programs import Workflow, encode_input
from perdure.service import execution_requests, unstarted_executions
from perdure.service.execution_folds import LogTail
from perdure.service.execution_requests import ExecutionRequest
from perdure.service.reruns import SEED_BITS
from perdure.service.store_access import StoreAccess
from perdure.service.wire_types import NO_ARGUMENTS, EncodedInput, JsonDocument
from perdure.stores.outbox import OutboxTransaction
from perdure.stores.protocol import UNLIMITED, Commit, Committed, Head, HeadFilter, Post, Refused, Store
from perdure.stores.user_transactions import UserTransactionStore


class StartRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request to start an execution: its key, encoded input, version to pin (0: the engine's), delay, and deadline counted from the start.

    After `ttl_s` the execution no longer begins. With `debounce_s` or `singleton`, `key` is that of a series (see `unstarted_executions`): the next start
    replaces one that has not begun, or has no effect while one runs. Without a `seed`, one is drawn. An `admission` limits how many executions that have not
    ended have the same value of an attribute. `carried` are values of the caller's context. With `is_new`, the id was drawn at random, so nobody looks whether
    an execution has it.
    """

    key: Key
    input: EncodedInput = NO_ARGUMENTS
    version: int = 0
    delay_s: float = 0.0
    deadline_s: float | None = None
    grace_s: float | None = None
    strict: bool = False
    queue: str = ""
    lane: str = ""
    priority: int = 0
    ttl_s: float | None = None
    debounce_s: float | None = None
    singleton: bool = False
    attributes: Attributes = ()
    definition: JsonDocument | None = None
    seed: int | None = None
    admission: StartAdmission | None = None
    carried: Carried = ()
    is_new: bool = False


BEGIN_S = 20.0
"""How long a start waits for an engine of this process to make it durable. The engine itself tries until its database takes changes again."""

INITIATOR_ATTRIBUTE = "initiator"
"""The attribute of an execution that names who started it through a service: the subject of a caller."""


def initiated_by(wanted: StartRequest, initiator: str) -> StartRequest:
    """Returns a request with the attribute that names its initiator; the request itself if there is none."""
    if not initiator:
        return wanted
    named = checked_attribute_changes(wanted.attributes, {INITIATOR_ATTRIBUTE: initiator})
    return msgspec.structs.replace(wanted, attributes=merge_attributes(wanted.attributes, named))


class HostedStart(msgspec.Struct, frozen=True):
    """The part of a start that the catalog decides on: the `program` by which engines claim it, and the definitions that it may call, with their bytes by hash.

    `may_mean` says of an execution that exists, by the attributes with which it began, whether the request can mean its definition.

    It is no part of a request, because a caller must not choose it.
    """

    program: str = ""
    calls: PinnedCalls = ()
    blobs: Mapping[str, bytes] = {}
    may_mean: Callable[[ShownAttributes], bool] = lambda _: True


NOT_HOSTED = HostedStart()


def positional_parameters(workflow: Workflow) -> list[str]:
    """The names of the parameters of a workflow that may be passed by position, in order, without the context."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [one.name for one in inspect.signature(workflow.fn).parameters.values() if one.kind in kinds][1:]


async def start_execution(access: StoreAccess, wanted: StartRequest, hosted: HostedStart = NOT_HOSTED) -> tuple[Key, bool]:
    """Starts an execution unless one of this key exists; returns its key and whether it was created. `hosted` is given for definitions of the catalog.

    Raises:
        InputDiffers: the start is strict, and one exists with another input or another definition.
        TooManyActive: none exists, and the admission does not allow another one now.
    """
    if wanted.admission is not None and wanted.debounce_s is not None:
        raise BadValue("admission", wanted.admission, "given without a debounce, which replaces an earlier start whether or not the new one is admitted")
    if wanted.debounce_s is None and not wanted.singleton:
        return wanted.key, await _post_start(access, wanted, hosted)
    series = await unstarted_executions.series_of(access, wanted.key)
    if wanted.singleton and series and series[0].status not in ENDED_STATUSES:
        return series[0].key, False
    next_key = unstarted_executions.next_in_series(wanted.key, series)
    delay_s = wanted.delay_s + (wanted.debounce_s or 0.0)
    replaced = [] if wanted.debounce_s is None else await unstarted_executions.supersede_commits(access, series, next_key)
    created = await _post_start(access, msgspec.structs.replace(wanted, key=next_key, delay_s=delay_s), hosted, replaced)
    if wanted.debounce_s is None or created:
        return next_key, created
    return await start_execution(access, wanted, hosted)  # a concurrent start has taken this number of the series


def begins_at_once(wanted: StartRequest) -> bool:
    """Whether an engine could begin the execution itself, which saves a commit: no option of the start needs the store."""
    in_place = wanted.queue or wanted.lane or wanted.priority
    is_checked = wanted.strict or wanted.ttl_s is not None or wanted.singleton or wanted.admission is not None
    return not (wanted.delay_s or in_place or wanted.debounce_s or is_checked)


async def _begin_in_engine(engine: Engine, wanted: StartRequest) -> bool:
    seed = secrets.randbits(SEED_BITS) if wanted.seed is None else wanted.seed
    start = messages.StartMessage(wanted.version, wanted.input, seed, None, wanted.deadline_s, definition=wanted.definition, grace_s=wanted.grace_s)
    if wanted.carried or wanted.attributes:
        start = msgspec.structs.replace(start, carried=wanted.carried, attributes=wanted.attributes)
    try:
        async with asyncio.timeout(BEGIN_S) as limit:
            return await engine.begin_execution(wanted.key, start)
    except TimeoutError:
        if not limit.expired():
            raise
        raise StoreUnavailable(
            f"could not start {wanted.key} within {BEGIN_S:g} s: the database takes no changes. It may begin yet; start it again with the same id"
        ) from None


def can_begin(engine: Engine | None, wanted: StartRequest) -> TypeGuard[Engine]:
    """Whether this engine may begin the execution itself: it works, and knows the workflow in this version and, of a definition, this release."""
    if engine is None or not engine.joined or engine.stopping or not begins_at_once(wanted):
        return False
    known = engine.known.get(wanted.key.workflow)
    if known is None or wanted.version not in (0, known.version):
        return False
    return wanted.definition is None or (known.name, sha256(wanted.definition).hexdigest()) in engine.releases


async def _post_start(access: StoreAccess, wanted: StartRequest, hosted: HostedStart = NOT_HOSTED, besides: Sequence[Commit] = ()) -> bool:
    if not wanted.carried and (carried := captured_context()):  # of the request, where a server starts it
        wanted = msgspec.structs.replace(wanted, carried=carried)
    if not besides and not hosted.program and can_begin(access.engine, wanted):
        return await _begin_in_engine(access.engine, wanted)
    key, created = wanted.key, False
    if wanted.is_new or not await access.store.heads(HeadFilter(keys=(key,), limit=1)):
        answer, *_ = await access.store.commit([await start_post(access, wanted, hosted), *besides])
        if isinstance(answer, Refused):
            raise refused_start(key, answer)
        created = isinstance(answer, Committed) and key in answer.created
    if wanted.strict and not created:
        await _expect_same(access, key, values.offload_if_large(wanted.input, {}), hosted)
    return created


async def start_post(access: StoreAccess, wanted: StartRequest, hosted: HostedStart = NOT_HOSTED) -> Post:
    """The post that starts an execution, unless one of this key exists: it can change records in the same commit. Nothing is looked up but the time."""
    key, blobs = wanted.key, dict(hosted.blobs)
    given = values.offload_if_large(wanted.input, blobs)
    definition = None if wanted.definition is None else values.put_blob(wanted.definition, blobs)
    now_s = (await access.store.store_time()).now_s if wanted.delay_s or wanted.ttl_s is not None else 0.0
    due_at_s = now_s + wanted.delay_s if wanted.delay_s else 0.0
    expires_at_s = None if wanted.ttl_s is None else now_s + wanted.delay_s + wanted.ttl_s
    seed = secrets.randbits(SEED_BITS) if wanted.seed is None else wanted.seed
    begin = messages.StartMessage(wanted.version, given, seed, None, wanted.deadline_s, expires_at_s=expires_at_s, attributes=wanted.attributes)
    begin = msgspec.structs.replace(begin, definition=definition, grace_s=wanted.grace_s, carried=wanted.carried)
    begin = msgspec.structs.replace(begin, hosting=Hosting(hosted.program, hosted.calls)) if hosted.program else begin
    program = program_name(hosted.program or key.workflow, wanted.version)
    opens = NewExecution(program, key, wanted.queue, wanted.lane, wanted.priority, index_attributes(wanted.attributes), wanted.admission)
    send = OutgoingMessage(key, "start", messages.encode_message(begin), due_at_s, opens)
    return Post(messages=(send,), blobs=tuple(blobs.items()))


def refused_start(key: Key, answer: Refused) -> TooManyActive:
    """The error of a start that its admission did not allow."""
    name, value, most = answer.admission.attribute, answer.admission.value, answer.admission.max
    return TooManyActive(key, name, indexed_attribute_values(((name, value),))[name], most)


async def _expect_same(access: StoreAccess, key: Key, given: Value, hosted: HostedStart) -> None:
    """Checks that an execution was started with this input and with what the request names, or will be. One that ended before it began matches any input."""
    began = await _beginning(access, key)
    match began:
        case None:
            return
        case e.RemovedEvent(input=digest):
            is_same = digest in (b"", compaction.value_digest(given))
        case _:
            is_same = began.input == given
    if not is_same:
        raise InputDiffers(key)
    if not hosted.may_mean(attribute_values(began.attributes)):
        raise InputDiffers(key, "definition")


async def _beginning(access: StoreAccess, key: Key) -> e.RemovedEvent | e.StartedEvent | messages.StartMessage | None:
    """What says with what an execution began, or will begin; None of one that ended before."""
    found = await access.store.read(key)
    events = [] if found is None else log_format.decode_rows(found.payloads)
    for event in reversed(events):  # the removal, if there is one, is the last event
        if isinstance(event, e.RemovedEvent | e.StartedEvent):
            return event
    begins = (messages.decode_message_or_task(queued.body) for queued in await access.store.messages(key))
    return next((begin for begin in begins if isinstance(begin, messages.StartMessage)), None)


async def send_signal(
    access: StoreAccess, key: Key, signal: messages.SignalMessage, may_come: bool = False, behind: Sequence[messages.SignalMessage] = ()
) -> Head | None:
    """Sends a message; returns the head from before. With `may_come`, the execution need not exist yet, and None is returned if it does not.

    Messages that it comes `behind` are sent in the same commit, and received before it.

    Raises:
        NotFound, HasEnded: no execution would receive it.
    """
    head = await _existing_head(access, key, may_come)
    if head is not None and head.status in ENDED_STATUSES:
        raise HasEnded(key, head.status, f"the message {signal.name!r}")
    blobs: dict[str, bytes] = {}
    light = [msgspec.structs.replace(one, body=values.offload_if_large(one.body, blobs)) for one in (*behind, signal)]
    sent = tuple(OutgoingMessage(key, f"message:{one.key}", messages.encode_message(one)) for one in light)
    post = Post(messages=sent, blobs=tuple(blobs.items()))
    _ = await access.store.commit([post])
    return head


def signal_message(to: Signal[Any] | str, body: Any, key: str | None = None) -> messages.SignalMessage:
    """Builds a message from outside, under the given idempotency key or a fresh one. See `signal_body`."""
    name, raw = signal_body(to, body)
    return messages.SignalMessage(name, raw, message_key(key))


def message_key(key: str | None) -> str:
    """Returns the idempotency key of a message: the given one, or a fresh one.

    Raises:
        BadName: it is invalid.
    """
    return uuid4().hex if key is None else checked_name(key, "key")


def signal_body(to: Signal[Any] | str, body: Any) -> tuple[str, bytes]:
    """Returns the name of a message and its encoded body.

    Raises:
        BadName: its name is invalid.
        BadValue: the body is not of the signal's type.
        MessageRejected: the validator of the signal has rejected it.
        Unencodable, TooLarge: the body cannot be stored.
    """
    name, kind = (to.name, to.body) if isinstance(to, Signal) else (checked_name(to, "signal"), Any)
    raw = values.encode(body, f"the body of {name}")
    try:
        read = values.decode(raw, kind, name)
    except Undecodable as error:
        raise BadValue(f"the body of {name}", body, f"what the signal takes: {error.why}") from error
    if isinstance(to, Signal) and (why := rejection_of(validators_of(to, None), lambda: read)) is not None:
        raise MessageRejected(name, why)
    return name, raw


async def cancel_execution(access: StoreAccess, key: Key, reason: str, wait: bool, undo: bool = True) -> None:
    """Cancels an execution: it unwinds, is undone unless `undo` is false, and ends as cancelled. Has no effect on one that is cancelled already.

    Raises:
        NotFound, HasEnded: there is nothing to cancel.
    """
    await post_request(access, execution_requests.cancel_request(await access.head(key), reason, undo), wait)


async def terminate_execution(access: StoreAccess, key: Key, reason: str, wait: bool) -> None:
    """Ends an execution as cancelled at once. Has no effect on one that is cancelled already.

    Raises:
        NotFound, HasEnded: there is nothing to terminate.
    """
    await post_request(access, execution_requests.terminate_request(await access.head(key), reason), wait)


async def discard_execution(access: StoreAccess, key: Key, reason: str, wait: bool) -> None:
    """Cancels an execution that has failed or needs attention, without running anything. Has no effect on any other.

    Raises:
        NotFound: there is no such execution.
    """
    await post_request(access, execution_requests.discard_request(await access.head(key), reason), wait)


async def pause_execution(access: StoreAccess, key: Key, reason: str, wait: bool) -> None:
    """Pauses an execution: it begins nothing more until it is resumed. Has no effect on one that is parked already.

    Raises:
        NotFound, HasEnded: there is nothing to pause.
    """
    _ = await post_message(access, key, messages.PauseMessage(reason), "pause", wait)


async def evict_execution(access: StoreAccess, key: Key, reason: str, wait: bool) -> None:
    """Evicts an execution from the engine that holds it; it continues from its log. Has no effect if no engine holds it.

    Raises:
        NotFound, HasEnded: there is nothing to evict.
    """
    _ = await post_message(access, key, messages.EvictMessage(reason), "evict", wait)


async def resume_execution(access: StoreAccess, key: Key, reason: str, wait: bool, verb: str = "resume") -> int:
    """Resumes a paused or parked execution; has no effect on any other. Returns the version after which to watch it. Errors name the operation as `verb`.

    Raises:
        NotFound, HasEnded: there is nothing to resume.
        NeedsAttention: with `wait`, it was resumed and is parked again.
    """
    head = await access.head(key)
    await post_request(access, execution_requests.message_request(head, messages.ResumeMessage(reason), verb), wait)
    return head.version


async def retry_execution(access: StoreAccess, key: Key, reason: str, wait: bool, step: str | None = None) -> int:
    """Retries a failed execution from what failed, or from `step`; a parked one continues where it is. Returns the version after which to watch it.

    Raises:
        NotFound, HasEnded: there is nothing to retry.
        BadValue: it has not reached that step, or is parked and cannot go back.
        NeedsAttention: with `wait`, it continued and is parked again.
    """
    head = await access.head(key)
    await post_request(access, await execution_requests.retry_request(access, head, reason, step), wait)
    return head.version


async def undo_execution(access: StoreAccess, key: Key, reason: str, wait: bool) -> None:
    """Undoes the completed steps of a completed execution, once; its status is then completed again.

    Of an execution that failed or was cancelled, undoes the steps whose undo failed then.

    Raises:
        NotFound, HasEnded, BadValue: there is nothing to undo, or it has not ended and should be cancelled.
        NeedsAttention: with `wait`, an undo failed.
    """
    await post_request(access, await execution_requests.undo_request(access, await access.head(key), reason), wait)


async def post_message(access: StoreAccess, key: Key, message: ExecutionMessage, what: str, wait: bool) -> Head:
    """Posts a message; with `wait`, returns after it was handled. Returns the head.

    Raises:
        NotFound, HasEnded: it would have no effect.
    """
    head = await access.head(key)
    await post_request(access, execution_requests.message_request(head, message, what), wait)
    return await access.head(key) if wait else head


async def post_request(access: StoreAccess, request: ExecutionRequest | None, wait: bool) -> None:
    """Posts a request, if there is one; with `wait`, returns after it has taken effect."""
    if request is not None:
        await execution_requests.post_requests(access, [request])
        if wait:
            await execution_requests.wait_for_effect(access, request)


async def _existing_head(access: StoreAccess, key: Key, may_come: bool) -> Head | None:
    try:
        return await access.head(key)
    except NotFound:
        if may_come:
            return None
        raise


def start_request(
    workflow: Workflow | NamedWorkflow, args: Sequence[Any], kwargs: Mapping[str, Any], verb: str, own_id: Callable[[], str] = lambda: uuid4().hex
) -> tuple[StartRequest, Queue | None]:
    """Builds the request to start an execution, and returns it with the queue that was declared for it. `own_id` supplies the id where none is given.

    Raises:
        BadValue: the arguments do not fit the workflow, or an option does not fit the others.
        WrongVerb: an option has no effect on this verb, or is passed among the arguments.
    """
    calling = workflow.calling
    refuse_ineffective_options(calling, verb, workflow.name)
    code = None if isinstance(workflow, NamedWorkflow) else workflow
    raw = encode_input(code or workflow.name, args, kwargs, verb)
    tenant = calling.tenant or DEFAULT_TENANT
    in_series = calling.debounce_s is not None or calling.singleton
    id = calling.id or (workflow.name if in_series else own_id())
    queue, lane, priority = calling.place(tenant, None if code is None else code.fn, args, kwargs)
    start = StartRequest(
        key=Key(tenant, workflow.name, id),
        input=raw,
        version=0 if code is None else code.version,
        definition=None if code is None else code.definition,
        delay_s=calling.delay_s,
        deadline_s=calling.deadline_s if code is None else code.deadline_s,
        grace_s=calling.grace_s if code is None else code.grace_s,
        strict=calling.strict,
        queue=queue,
        lane=lane,
        priority=priority,
        ttl_s=calling.ttl_s,
        debounce_s=calling.debounce_s,
        singleton=calling.singleton,
        attributes=calling.attributes,
        carried=captured_context(),
        is_new=calling.id is None and not in_series,
    )
    return start, calling.line


def expect_no_wait(connection: Any) -> None:
    """Refuses a connection for a call that waits for the result."""
    if connection is not None:
        raise WrongVerb(
            "run() was called with connection=, and nothing begins before your commit", "use start(connection=...), commit, then result() of the handle"
        )


async def start_in_transaction(access: StoreAccess, connection: Any, wanted: StartRequest, queue: Queue | None) -> tuple[Key, bool]:
    """Starts an execution, as `start_execution` does, in the transaction that is open on `connection`.

    Raises:
        BadValue: the connection is not to the store's database (or the outbox's), has no transaction, or the store does not have the limits of `queue` yet.
    """
    if access.outbox is not None:
        _refuse_for_outbox(wanted)
    joins = access.user_transactions
    await joins.meet()
    async with joins.join(connection) as within:
        if queue is not None and not isinstance(within, OutboxTransaction):
            await _expect_declared(within, queue)
        return await start_execution(_access_of(within), wanted)


async def send_in_transaction(access: StoreAccess, connection: Any, key: Key, signal: messages.SignalMessage, may_come: bool) -> None:
    """Sends a message, as `send_signal` does, in the transaction that is open on `connection`. In an outbox it is sent whether or not the execution exists.

    Raises:
        BadValue: the connection is not to the store's database (or the outbox's), or has no transaction.
        NotFound, HasEnded: no execution would receive it.
    """
    joins = access.user_transactions
    await joins.meet()
    async with joins.join(connection) as within:
        _ = await send_signal(_access_of(within), key, signal, may_come or access.outbox is not None)


def _refuse_for_outbox(wanted: StartRequest) -> None:
    """Refuses options whose meaning depends on what the store has when the start is called."""
    options = {"strict": wanted.strict, "singleton": wanted.singleton, "debounce": wanted.debounce_s is not None}
    if given := [name for name, is_given in options.items() if is_given]:
        raise BadValue(f"{given[0]}=", True, "given without connection= on an outbox, which does not know what the store has; use an id of your own")


async def _expect_declared(within: UserTransactionStore, queue: Queue) -> None:
    """Refuses a queue that the store does not know with these limits. Declaring it changes the limits of every waiting task, which must not happen in a
    transaction of the caller.
    """
    known = {status.name: status.limits for status in await within.queues() if status.tenant is None}
    if known.get(queue.name, UNLIMITED).declared != queue_limits(queue).declared:
        raise BadValue(
            "queue=", queue.name, "declared in the store with these limits yet: run an engine that has it, or start something in it once without connection="
        )


def _access_of(within: UserTransactionStore | OutboxTransaction) -> StoreAccess:
    return StoreAccess(cast("Store", within))  # starting and sending use only what a transaction of the user provides


async def await_reply(access: StoreAccess, key: Key, signal: messages.SignalMessage, behind: Sequence[messages.SignalMessage] = ()) -> Value:
    """Sends a message under a fresh key, and in the same commit those that it comes `behind`, and waits for the reply to it.

    Raises:
        NotFound, HasEnded: no execution would receive it.
        NoReply: the execution ended without a reply, or could not accept the message.
        MessageRejected: a validator of the workflow has rejected it.
    """
    before = await send_signal(access, key, signal, behind=behind)
    if before is None:
        raise NotFound(key)
    return await _next_reply(access, LogTail(access.store, key, before.version, read_archives=True), ReplySearch(key, signal))


async def _next_reply(access: StoreAccess, tail: LogTail, search: ReplySearch) -> Value:
    """Waits for a reply that is not in the log as far as it was read."""
    while True:
        while (row := await tail.next()) is not None:
            search.take(row)
            if search.reply is not None:
                return search.reply
        _ = await access.watch.until(tail.key, lambda head: head is None or head.version > tail.version, quick=True)


ARRIVAL_S = 1.0
"""How long a message that was delivered in this process may take to become durable, until it is sent through the store as well."""


async def await_direct_reply(access: StoreAccess, key: Key, signal: messages.SignalMessage, *, is_new: bool = True) -> Value:
    """Does the same as `await_reply` with one message, but hands it to the engine of this process if that has the execution in memory, which saves two commits.

    The message may overtake others that were sent before it. If it is not `is_new`, one with its key may have been sent before, and the reply is to that one.

    Raises:
        NotFound, HasEnded, NoReply, MessageRejected: see `await_reply`.
    """
    if is_new:
        engine = access.engine
        wait = None if engine is None else engine.ask(key, signal)
        if wait is None or engine is None:
            return await await_reply(access, key, signal)
        try:
            _ = await asyncio.wait((wait.arrived,), timeout=ARRIVAL_S)
            if wait.arrived.done() and (reply := await asyncio.shield(wait.reply)) is not None:
                return reply
        finally:
            engine.replies.remove(wait)
    tail, search = LogTail(access.store, key, read_archives=True), ReplySearch(key, signal)
    while (row := await tail.next()) is not None:
        search.take(row)
        if search.reply is not None:
            return search.reply
    if not search.has_arrived:
        _ = await send_signal(access, key, signal)
    return await _next_reply(access, tail, search)
