"""Driving: the generators of the core, which ask for blobs and nothing else, run to their end in an event loop."""

import asyncio
from collections.abc import Generator, Mapping
from typing import Any, TypeVar

from perdure.core.rebuild import Load
from perdure.programs.code.scheduler import ONE_TASK_PER_THREAD
from perdure.runtime.payloads import Payloads

T = TypeVar("T")


async def drive(payloads: Payloads, deciding: Generator[Load, bytes, T], unwritten: Mapping[str, bytes] = {}) -> T:
    """Run a generator of the core to its end, fetching the blobs that it asks for; those that are `unwritten` are at hand.

    Raises:
        LogDamaged: one of them is missing.
    """
    answer: Any = None
    try:
        while True:
            asked = await _outside_of_tasks(deciding, answer) if ONE_TASK_PER_THREAD else deciding.send(answer)
            answer = unwritten.get(asked.blob.sha256) or await payloads.get(asked.blob.sha256)
    except StopIteration as end:
        result: T = end.value
        return result
    except _Ended as end:
        return end.args[0]  # type: ignore[no-any-return]  # what the generator returned


class _Ended(Exception):  # a future can't carry a StopIteration
    """What a generator returned."""


async def _outside_of_tasks(deciding: Generator[Load, bytes, object], answer: bytes) -> Load:
    """Go on with a decision where a deterministic loop may be driven: from Python 3.14 on, in a callback and not in a task."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Load] = loop.create_future()

    def call() -> None:
        try:
            done.set_result(deciding.send(answer))
        except StopIteration as end:
            done.set_exception(_Ended(end.value))
        except BaseException as error:
            done.set_exception(error)

    loop.call_soon(call)
    return await done
