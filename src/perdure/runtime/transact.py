"""Carrying out a step in a transaction: what it writes and the answer that settles it are one commit of the store's database.

The answer is mail to the execution, as a worker's is. So it is there exactly if what was written is, and whoever goes on with the
execution finds it before anything else.
"""

import asyncio
from concurrent.futures import Executor
from typing import Any

from perdure.core import messages
from perdure.core.errors import ErrorInfo
from perdure.core.mail import Send
from perdure.core.ops import Err, Ok, Outcome
from perdure.core.values import Value, offload
from perdure.programs.code.declare import Step, Undo
from perdure.programs.code.info import StepInfo, running
from perdure.runtime.holder import persistently
from perdure.runtime.payloads import Payloads
from perdure.runtime.perform import failure, of_what_is_undone, payload
from perdure.runtime.secrets import reveal
from perdure.stores.base import Committed, Guard, Post, Raised, Store
from perdure.stores.joining import transacting


def in_transaction(fn: Any) -> bool:
    """Whether a step, or what undoes one, is to be given a transaction."""
    step = fn.step if isinstance(fn, Undo) else fn
    return isinstance(step, Step) and step.transaction


async def transact(
    store: Store, call: tuple[Step[Any, Any, Any] | Undo, Value], info: StepInfo, guard: Guard, threads: Executor | None = None
) -> Outcome | None:
    """Carry out a try, and return its outcome, which is in the mail as well; what fails was rolled back. None if it is not to be done from here any more."""
    fn, args = call
    step = fn.step if isinstance(fn, Undo) else fn
    database = transacting(store)
    if database is None:
        return Err("fatal", 1, ErrorInfo("WrongStore", f"step {step.name} wants a transaction, and this store has none for users: use SQLite or Postgres"))
    try:
        payloads = Payloads(store)
        raw = await payload(args, payloads)
        raw = await of_what_is_undone(raw, payloads) if isinstance(fn, Undo) else raw
        raw = await reveal(raw, info.life, threads) if info.life is not None and info.life.places else raw
        positional, named = step.codec.decode_args(raw, "the arguments of step", info.path)
    except asyncio.CancelledError:
        raise
    except BaseException as error:
        return info.mask.outcome(failure(step, error, info.mask))

    settled: list[Ok] = []

    async def work(transaction: Any) -> Post:
        token = running.set(info)
        try:
            result = await step.fn(transaction, *positional, **named)
        finally:
            running.reset(token)
        blobs: dict[str, bytes] = {}
        settled[:] = [Ok(offload(info.mask.value(step.codec.encode_result(result, "the result of step", info.path)), blobs))]
        settle = messages.Settle(info.path, info.attempt, settled[0])
        acks = () if guard.work is None else (guard.work,)
        return Post(sends=(Send(info.execution, messages.answer_key(info.path, info.attempt), messages.encode(settle)),), acks=acks, blobs=tuple(blobs.items()))

    answer = await persistently(lambda: database.transact(guard, work))
    if isinstance(answer, Raised):
        return info.mask.outcome(failure(step, answer.error, info.mask))
    return settled[0] if isinstance(answer, Committed) else None
