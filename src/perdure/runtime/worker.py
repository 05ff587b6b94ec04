"""The worker: does calls that wait on queues, for executions that any engine advances. It knows steps, and nothing of workflows.

A call is leased while it is done; its answer and its acknowledgement are one post. Should the worker die, the call is leased to
another, and the answer that comes first counts.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any
from uuid import uuid4

from perdure.core import limits, messages
from perdure.core.errors import ErrorInfo, LogDamaged, StoreError
from perdure.core.mail import Ack, Mail, Send
from perdure.core.messages import Lost, Settle, Work
from perdure.core.ops import Err, Ok, Outcome
from perdure.core.paths import text
from perdure.core.values import Blob, offload
from perdure.programs.code.declare import Step
from perdure.programs.code.info import StepInfo
from perdure.runtime.perform import perform
from perdure.stores.base import Claim, Post, Store

logger = logging.getLogger("perdure.worker")


class Worker:
    """Does calls on `queues` with `steps`, at most `limit` at a time, until stopped."""

    def __init__(
        self,
        store: Store,
        steps: Iterable[Step[Any, Any, Any]],
        *,
        queues: Iterable[str],
        limit: int = 10,
        holder: str | None = None,
        lease_s: float = 15.0,
        poll_s: float = 1.0,
    ) -> None:
        self.store = store
        self.steps: Mapping[str, Step[Any, Any, Any]] = {one.name: one for one in steps}
        self.queues = frozenset(queues)
        self.holder = holder or f"worker-{uuid4().hex}"
        self.epoch = 0
        self._limit = limit
        self._lease_s = lease_s
        self._poll_s = poll_s
        self._generation = 0
        self._at_work: dict[tuple[int, int], asyncio.Task[None]] = {}
        self._threads: Executor | None = None
        self._stopping = False

    async def run(self) -> None:
        """Lease and do calls until cancelled or stopped; what is being done then is done again elsewhere."""
        loop = asyncio.get_running_loop()
        self._ring = asyncio.Event()
        self._threads = ThreadPoolExecutor(thread_name_prefix="perdure-step")
        silence = self.store.on_wake(lambda: _ring(loop, self._ring))
        renewing = asyncio.create_task(self._keep_alive())
        try:
            await self._join()
            while not self._stopping:
                await self._claim()
                await self._wait()
        finally:
            silence()
            renewing.cancel()
            for task in self._at_work.values():
                task.cancel()
            await asyncio.gather(renewing, *self._at_work.values(), return_exceptions=True)
            self._threads.shutdown(wait=False, cancel_futures=True)
            try:
                await self.store.renew(self.holder, 0)
            except StoreError as error:
                logger.warning("could not tell the store that %s is gone: %s; its lease will run out", self.holder, error)

    def stop(self) -> None:
        """Make `run` return."""
        self._stopping = True
        self._ring.set()

    async def _join(self) -> None:
        self.epoch = (await self._persistently(lambda: self.store.renew(self.holder, self._lease_s))).epoch

    async def _keep_alive(self) -> None:
        while True:
            await asyncio.sleep(self._lease_s / 3)
            try:
                moment = await self.store.renew(self.holder, self._lease_s)
            except StoreError as error:
                logger.warning("could not renew the lease of %s: %s", self.holder, error)
                continue
            if moment.epoch != self.epoch:
                await self._begin_anew()

    async def _begin_anew(self) -> None:
        """The store has begun a new epoch: what is leased is no longer ours."""
        for task in self._at_work.values():
            task.cancel()
        self._at_work.clear()
        self._generation += 1
        self.holder = f"{self.holder.partition('~')[0]}~{self._generation}"
        await self._join()

    async def _persistently(self, ask: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        wait_s = 0.05
        while True:
            try:
                return await ask()
            except StoreError as error:
                logger.warning("the store is unavailable: %s; trying again in %.2g s", error, wait_s)
                await asyncio.sleep(wait_s)
                wait_s = min(wait_s * 2, 5.0)

    async def _claim(self) -> None:
        self._ring.clear()
        free = self._limit - len(self._at_work)
        if free <= 0:
            return
        try:
            claimed = await self.store.claim(Claim(holder=self.holder, epoch=self.epoch, queues=self.queues, limit=free))
        except StoreError as error:
            logger.warning("could not claim: %s", error)
            return
        for mail in claimed.work:
            lease = (self._generation, mail.number)
            if lease not in self._at_work:
                self._at_work[lease] = task = asyncio.create_task(self._do(mail))
                task.add_done_callback(lambda task, lease=lease: self._done(lease, task))  # type: ignore[misc]  # mypy can't infer the default

    def _done(self, lease: tuple[int, int], task: "asyncio.Task[None]") -> None:
        if self._at_work.get(lease) is task:
            del self._at_work[lease]
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("a task of the worker failed; this is a defect of Perdure", exc_info=error)
        self._ring.set()

    async def _wait(self) -> None:
        try:
            await asyncio.wait_for(self._ring.wait(), self._poll_s)
        except TimeoutError:
            return

    async def _do(self, mail: Mail) -> None:
        work = messages.decode(mail.body)
        if not isinstance(work, Work):
            raise LogDamaged(f"mail {mail.number} to queue {mail.to} is no work")
        epoch = self.epoch
        blobs: dict[str, bytes] = {}
        if mail.deliveries > limits.INTERRUPTIONS_MAX:
            answer: Lost | Settle = Lost(work.path, work.attempt, mail.deliveries)
        else:
            outcome = await self._outcome(work, mail.deliveries)
            light = Ok(offload(outcome.value, blobs), outcome.port) if isinstance(outcome, Ok) else outcome
            answer = Settle(work.path, work.attempt, light)
        send = Send(work.execution, f"settle:{text(work.path)}:{work.attempt}", messages.encode(answer))
        post = Post(epoch=epoch, sends=(send,), acks=(Ack(mail.to, mail.key),), blobs=tuple(blobs.items()))
        await self._persistently(lambda: self.store.commit([post]))

    async def _outcome(self, work: Work, deliveries: int) -> Outcome:
        step = self.steps.get(work.target)
        if step is None:
            why = f"no worker here has step {work.target}; start one that has it on this queue"
            return Err("failed", ErrorInfo("UnknownStep", why))
        if deliveries > 1 and not work.idempotent:
            return Err("interrupted", ErrorInfo("Interrupted", "its worker is gone, and it is not declared idempotent, so it was not run again"))
        raw = await self._persistently(lambda: self._payload(work)) if isinstance(work.args, Blob) else work.args
        trying = perform(step, raw, StepInfo(work.execution, work.path, work.attempt), self._threads, lambda _: None)
        try:
            return await asyncio.wait_for(trying, work.timeout_s)
        except TimeoutError:
            return Err("timeout", ErrorInfo("Timeout", f"no answer within {work.timeout_s:g} s"))

    async def _payload(self, work: Work) -> bytes:
        raw = await self.store.blob(work.args.sha256) if isinstance(work.args, Blob) else work.args
        if raw is None:
            raise LogDamaged(f"the arguments of {text(work.path)} are missing")
        return raw


def _ring(loop: asyncio.AbstractEventLoop, bell: asyncio.Event) -> None:
    loop.call_soon_threadsafe(bell.set)
