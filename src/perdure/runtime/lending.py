"""Lending: work of queues is lent to borrowers outside of this process, who speak whatever language. Nothing here knows by which transport they come.

The lender is one holder at the store, and has in its name all that is lent; when it dies, all of it goes back. A loan is kept by its borrower's
heartbeats. One that runs out is told to its execution as an interruption, so what may be done twice is done by somebody else.
"""

import asyncio
import logging
from collections.abc import Coroutine, Iterable
from functools import partial
from math import inf
from secrets import token_urlsafe
from typing import Any, TypeVar

from perdure.core.errors import ErrorInfo, LogDamaged, ProgrammingError, StoreError
from perdure.core.mail import Mail
from perdure.core.messages import Lost, Work
from perdure.core.ops import Err, Ok, Outcome
from perdure.programs.code.failures import error_info
from perdure.runtime import answers
from perdure.runtime.answers import Answer
from perdure.runtime.beats import Beats
from perdure.runtime.claims import LOOK_S, Claims
from perdure.runtime.holder import LEASE_S, POLL_S, Holder, persistently
from perdure.runtime.loans import ENDS, UNKNOWN, Beat, Borrower, End, Gone, Loan, Loans, Past, fingerprint, given
from perdure.runtime.payloads import Payloads
from perdure.runtime.perform import failure
from perdure.runtime.presence import here
from perdure.runtime.secrets import Secrets, finding
from perdure.stores.base import Committed, Post, Store

logger = logging.getLogger("perdure.worker")

T = TypeVar("T")

CLAIM_MAX = 1000
"""How many pieces of work are claimed at a time, however many are asked for."""

TICK_S = 0.001
"""By how much a timer may be early."""


class Wanted:
    """What a borrower asks for: work of these queues, of these tenants alone (None: of all), up to `limit` pieces, and until when it waits for a first."""

    __slots__ = ("got", "lease_s", "limit", "queues", "tenants", "until_s")

    def __init__(self, queues: Iterable[str], tenants: frozenset[str] | None = None, *, limit: int = 1, wait_s: float = 0.0, lease_s: float | None) -> None:
        loop = asyncio.get_running_loop()
        self.queues, self.tenants, self.limit, self.lease_s = frozenset(queues), tenants, limit, lease_s
        self.until_s = loop.time() + wait_s
        self.got: asyncio.Future[list[tuple[Mail, Work]] | Gone] = loop.create_future()


class Lender:
    """Lends the work of `queues` until stopped, with the secrets that it is to be given, which `secrets` finds."""

    def __init__(
        self,
        store: Store,
        queues: Iterable[str],
        *,
        holder: str | None = None,
        lease_s: float = LEASE_S,
        poll_s: float = POLL_S,
        threaded: bool = False,
        secrets: Secrets | None = None,
    ) -> None:
        self.store = store
        self._secrets = secrets
        self.queues = frozenset(queues)
        self.loans = Loans()
        self._payloads = Payloads(store)
        self._membership = Holder(store, holder, here("worker", queues=self.queues), lease_s, threaded=threaded)
        self._claims = Claims(store, self._membership, poll_s, self._forsake)
        self._waiting: list[Wanted] = []
        self._tasks: set[asyncio.Task[Any]] = set()
        self._stopping = False
        self._grace_ends_s = 0.0
        self.joined = asyncio.Event()

    @property
    def stopping(self) -> bool:
        """Whether nothing more is lent."""
        return self._stopping

    async def run(self) -> None:
        """Lend until cancelled or stopped; what is lent then is given back."""
        async with self._claims.alive():
            self.joined.set()
            looking = asyncio.create_task(self._keep_looking())
            try:
                while not self._stopping:
                    await self._hand_out()
                    await self._claims.wait()
                self._refuse()
                await self._until_answered()
            finally:
                self._stopping = True
                self._refuse()
                self._end_all("stopping")
                tasks = [looking, *self._tasks]
                for task in tasks:
                    task.cancel()
                _ = await asyncio.gather(*tasks, return_exceptions=True)

    def stop(self, grace_s: float = 0.0) -> None:
        """Make `run` return. Nothing more is lent, and who waits for work is told so at once; what is lent may be answered within `grace_s`.

        A later call may shorten that.
        """
        self._grace_ends_s = asyncio.get_running_loop().time() + grace_s
        self._stopping = True
        self._claims.ring()

    # What borrowers ask.

    async def lease(self, borrower: Borrower, wanted: Wanted) -> list[Loan] | Gone:
        """Lend work as soon as there is any; nothing, if there is none in time. `Gone`, if nothing more is lent here."""
        if self._stopping:
            return Gone("stopping", "nothing more is lent here")
        self._waiting.append(wanted)
        self._claims.ring()
        timer = asyncio.get_running_loop().call_at(wanted.until_s, self._claims.ring)
        loans = list[Loan]()
        try:
            got = await wanted.got
            if isinstance(got, Gone):
                return got
            loans += [self._lend(borrower, wanted, mail, work) for mail, work in got]
            return [loan for loan in loans if await self._prepared(loan)]
        except asyncio.CancelledError:
            self.give_back(loans)
            if not loans and wanted.got.done() and not wanted.got.cancelled() and isinstance(found := wanted.got.result(), list):
                self._return(found)
            raise
        finally:
            timer.cancel()

    async def heartbeat(self, borrower: Borrower, id: str, progress: bytes | None = None) -> Beat | Gone:
        """Keep a loan for as long again, and take what the borrower says of how far it is (encoded)."""
        match self.loans.find(borrower, id):
            case Loan() as loan:
                loan.alive()
                if progress is not None and loan.beats is not None:
                    loan.beats.beat(loan.mask.value(progress) if loan.mask else progress)
                return Beat(True, lease_s=loan.lease_s) if loan.is_wanted else Beat(False, loan.cancelled.result().why, loan.lease_s)
            case Past(_, Gone("unwanted" | "timed_out", why)):
                return Beat(False, why)
            case Past(_, gone):
                return gone
        return UNKNOWN

    async def complete(self, borrower: Borrower, id: str, value: bytes, port: str = "success") -> Gone | None:
        """Take the result of a loan (encoded), and the port by which a graph goes on; return None once it is durable, and if it was before."""
        return await self._take(borrower, id, Ok(value, port))

    async def fail(self, borrower: Borrower, id: str, error: ErrorInfo, *, retry: bool = True, after_s: float | None = None) -> Gone | None:
        """Take the failure of a loan, as `complete` takes a result. Without `retry` it is not tried again; else as its step says, not before `after_s`."""
        return await self._take(borrower, id, Err("failed" if retry else "fatal", 1, error, after_s=after_s))

    def interrupt(self, loans: Iterable[Loan]) -> None:
        """Whoever had these is gone, and will not answer."""
        for loan in [loan for loan in loans if loan.id in self.loans.open and loan.answer is None]:
            self._finish(loan, Lost(loan.work.path, loan.work.attempt, loan.mail.deliveries), "ran_out")

    def give_back(self, loans: Iterable[Loan]) -> None:
        """Nobody has begun with these; that is no interruption."""
        for loan in [loan for loan in loans if loan.id in self.loans.open and loan.answer is None]:
            self._finish(loan, Lost(loan.work.path, loan.work.attempt, 0), "given_back")

    # Handing out.

    async def _hand_out(self) -> None:
        """Claim for those who wait, and for all who want the same at once; whose time is over gets nothing."""
        groups: dict[tuple[frozenset[str], frozenset[str] | None], list[Wanted]] = {}
        asked = [one for one in self._waiting if not one.got.done()]
        for one in asked:
            groups.setdefault((one.queues, one.tenants), []).append(one)
        for (queues, tenants), waiting in groups.items():
            claimed = await self._claims.claim(queues, min(sum(one.limit for one in waiting), CLAIM_MAX), tenants)
            found = [(mail, work) for mail, work in claimed if self._is_worth_doing(mail, work)]
            for one in waiting:
                if found and not one.got.done():
                    one.got.set_result(found[: one.limit])
                    found = found[one.limit :]
            self._return(found)  # those for whom it was claimed have left meanwhile
        now_s = asyncio.get_running_loop().time() + TICK_S
        for one in asked:
            if not one.got.done() and one.until_s <= now_s:
                one.got.set_result([])
        self._waiting = [one for one in self._waiting if not one.got.done()]

    def _return(self, found: Iterable[tuple[Mail, Work]]) -> None:
        """Give back work that nobody was lent."""
        for mail, work in found:
            _ = self._spawn(self._answer(mail, work, Lost(work.path, work.attempt, 0)))

    def _is_worth_doing(self, mail: Mail, work: Work) -> bool:
        """Whether work is to be lent; what is not is answered."""
        if (answer := answers.given_up(work, mail.deliveries)) is None:
            return True
        _ = self._spawn(self._answer(mail, work, answer))
        return False

    def _lend(self, borrower: Borrower, wanted: Wanted, mail: Mail, work: Work) -> Loan:
        left_s, now_s = inf, self._claims.clock.now().earliest_s
        if work.timeout_s is not None:  # which counts from when the try was asked for, as its execution counts it
            left_s = min(work.timeout_s, mail.due_at_s + work.timeout_s - now_s)
        loan = Loan(token_urlsafe(24), borrower, mail, work, wanted.lease_s, left_s)
        loan.beats = Beats(partial(self._say, work))
        loan.until_store_s = None if work.timeout_s is None else now_s + left_s
        self.loans.open[loan.id] = loan
        self.loans.watch(loan, self._due)
        return loan

    async def _prepared(self, loan: Loan) -> bool:
        """Have what a loan is to be done with at hand; what has none that can be read has failed."""
        try:
            loan.given, loan.mask = await given(loan.work, self._payloads, finding(self._secrets, loan.work.execution.tenant))
        except (ProgrammingError, LogDamaged, ValueError) as error:
            self.refuse(loan, error)
        except BaseException as error:  # what finds a secret may raise anything
            if isinstance(error, StoreError) or ((task := asyncio.current_task()) is not None and task.cancelling()):
                raise
            self._finish(loan, answers.settled(loan.work, failure(None, error, loan.mask), {}), "answered")
        return loan.id in self.loans.open

    def refuse(self, loan: Loan, error: Exception) -> None:
        """A loan can't be handed to anybody as it is, so it has failed for good."""
        failed = Err("fatal", 1, error_info(error, loan.mask))
        self._finish(loan, answers.settled(loan.work, failed, {}), "answered")

    # Answers.

    async def _take(self, borrower: Borrower, id: str, outcome: Outcome) -> Gone | None:
        match self.loans.find(borrower, id):
            case Past(_, gone, before):
                return None if gone.end == "answered" and before == fingerprint(outcome) else gone
            case Loan() as loan:
                pass
            case _:
                return UNKNOWN
        if loan.answer is None:
            blobs: dict[str, bytes] = {}
            loan.answer = fingerprint(outcome)
            answer = answers.settled(loan.work, loan.mask.outcome(outcome) if loan.mask else outcome, blobs)
            loan.sent = self._spawn(self._answered(loan, answer, blobs))
        if loan.sent is None or loan.answer != fingerprint(outcome):
            return Gone("answered", ENDS["answered"])
        _ = await asyncio.wait([loan.sent])
        if loan.sent.cancelled():
            return Gone("stopping", ENDS["stopping"])
        return None if loan.sent.result() else Gone("lost", ENDS["lost"])

    async def _answered(self, loan: Loan, answer: Answer, blobs: dict[str, bytes]) -> bool:
        """Post a borrower's answer, and say whether the store has taken it; one that could not be posted may be given again."""
        untold = None if loan.beats is None else loan.beats.take()
        try:
            was_taken = await self._answer(loan.mail, loan.work, answer, untold, blobs)
        except StoreError:
            loan.answer = None
            self.loans.watch(loan, self._due)
            raise
        self.loans.end(loan, "answered" if was_taken else "lost")
        return was_taken

    def _finish(self, loan: Loan, answer: Answer, end: End) -> None:
        """End a loan that its borrower has not answered, and answer in its place."""
        untold = None if loan.beats is None else loan.beats.take()
        self.loans.end(loan, end)
        _ = self._spawn(self._answer(loan.mail, loan.work, answer, untold))

    def _due(self, loan: Loan) -> None:
        """A loan's time is over, or its borrower is silent for too long."""
        if loan.answer is not None:
            return
        if loan.until_s <= loan.silent_until_s:
            self._finish(loan, answers.settled(loan.work, answers.late(loan.work), {}), "timed_out")
        else:
            logger.warning("nothing was heard of %s of queue %s from %s for %g s", loan.work.key, loan.mail.to[1], loan.borrower.name, loan.lease_s)
            self.interrupt([loan])

    async def _answer(self, mail: Mail, work: Work, answer: Answer, untold: bytes | None = None, blobs: dict[str, bytes] | None = None) -> bool:
        """Post an answer, and say whether the store has taken it; it has not in a new epoch."""
        post = answers.post(mail, work, answer, self._membership.epoch, untold, blobs)
        (taken,) = await persistently(lambda: self.store.commit([post]))
        return isinstance(taken, Committed)

    def _say(self, work: Work, said: bytes) -> None:
        _ = self._spawn(self._tell(work, said))

    async def _tell(self, work: Work, said: bytes) -> None:
        try:
            _ = await self.store.commit([Post(epoch=self._membership.epoch, sends=(answers.progress(work, said),))])
        except StoreError as error:
            logger.info("how far %s is could not be told, and is with the next heartbeat: %s", work.key, error)

    # What ends loans without anybody's saying so.

    async def _keep_looking(self) -> None:
        """Look now and then whether what is lent is still wanted."""
        while True:
            await asyncio.sleep(LOOK_S)
            loans = [loan for loan in self.loans.open.values() if loan.answer is None and loan.is_wanted]
            if not loans:
                continue
            try:
                there = await self.store.there([loan.mark for loan in loans])
            except StoreError as error:
                logger.info("could not look whether what is lent is still wanted: %s", error)
                continue
            for loan, is_there in zip(loans, there, strict=True):
                if not is_there and loan.answer is None:
                    self._cancel(loan)

    def _cancel(self, loan: Loan) -> None:
        """Nobody waits for a loan any more. If its execution has failed or was cancelled, it may still be answered for a while."""
        loan.cancel("unwanted")
        if loan.work.grace_s > 0:
            _ = asyncio.get_running_loop().call_later(loan.work.grace_s, self.loans.end, loan, "unwanted")
        else:
            self.loans.end(loan, "unwanted")

    def _forsake(self) -> None:
        self._end_all("lost")

    def _end_all(self, end: End) -> None:
        for loan in [loan for loan in self.loans.open.values() if loan.answer is None]:
            self.loans.end(loan, end)

    def _refuse(self) -> None:
        """Tell those who wait that nothing more is lent."""
        for one in self._waiting:
            if not one.got.done():
                one.got.set_result(Gone("stopping", "nothing more is lent here"))
        self._waiting.clear()

    async def _until_answered(self) -> None:
        loop = asyncio.get_running_loop()
        while (left := [*(loan.ended for loan in self.loans.open.values()), *self._tasks]) and (left_s := self._grace_ends_s - loop.time()) > 0:
            _ = await asyncio.wait(left, timeout=min(left_s, 0.05))

    def _spawn(self, doing: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        task = asyncio.create_task(doing)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: "asyncio.Task[Any]") -> None:
        self._tasks.discard(task)
        if not self._claims.ended(task) and not task.cancelled() and (error := task.exception()) is not None:
            logger.error("what was said of a loan did not reach the store: %s", error)
