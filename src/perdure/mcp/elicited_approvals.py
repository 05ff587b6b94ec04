"""What a server asks the user of a tool becomes an approval: with the form of the server, in the inbox of people, found by the execution of the call.

The approval is an execution of its own, whose id follows from the call and the question. A call that is repeated after a crash and asks the same is given the
decision that was made. The approval is cancelled when the call ends before people have decided; if the process dies, it ends when its time is over.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Literal, NamedTuple, Protocol

import msgspec

from perdure.code.approval_attributes import ApprovalSubject, approval_attributes
from perdure.code.approval_requests import ApprovalRequest, ApprovalVerdict
from perdure.code.child_executions import child_id
from perdure.code.step_environment import StepInfo
from perdure.core import values
from perdure.core.error_text import shorten_text
from perdure.core.errors import BadExpression, ExecutionCancelled, ExecutionFailed, HasEnded, MissingExtra, NotFound
from perdure.core.operations import APPROVAL_WORKFLOW
from perdure.core.paths import Key
from perdure.definitions.expr import json_schema
from perdure.mcp.server_configs import McpServer
from perdure.runtime.execution_results import wait_for_result
from perdure.service.execution_operations import StartRequest, cancel_execution, start_execution
from perdure.service.store_access import StoreAccess
from perdure.stores.protocol import Store

logger = logging.getLogger("perdure.mcp")

TITLE_CHARACTERS_MAX = 300


class Question(NamedTuple):
    """What a server asks while it performs a call: its message, and the schema of the answer, or an address at which people do something."""

    message: str
    form: Mapping[str, Any] | None = None
    url: str = ""


class Answer(NamedTuple):
    """The answer of people, in the words of the protocol; `content` is the form that was filled in."""

    action: Literal["accept", "decline", "cancel"]
    content: Any = None


class Asked(Protocol):
    """Who is asked what a server wants to know while it performs a call: people by approvals, or whoever calls."""

    @property
    def tenant(self) -> str:
        """The tenant of the call."""
        ...

    @property
    def is_over(self) -> bool:
        """Whether nobody waits for the call any more."""
        ...

    async def ask(self, question: Question) -> Answer:
        """Asks, and returns the answer."""
        ...

    async def withdraw(self) -> None:
        """Withdraws what was asked and is not answered."""
        ...


class CallOfStep:
    """A call of a tool that a step makes."""

    def __init__(self, info: StepInfo) -> None:
        self._info = info

    @property
    def tenant(self) -> str:
        """The tenant of the call."""
        return self._info.execution.tenant

    @property
    def is_over(self) -> bool:
        """Whether the execution no longer waits for the call."""
        return self._info.cancelled


class AskedPeople(CallOfStep):
    """Asks people on behalf of one call of a tool, as often as its server asks."""

    def __init__(self, server: McpServer, tool: str, info: StepInfo, store: Store) -> None:
        super().__init__(info)
        self._server, self._tool, self._store = server, tool, store
        self._open = set[Key]()

    async def ask(self, question: Question) -> Answer:
        """Asks people, and waits until they have decided or the time is over. What does not fit the form is asked for again, with the reason."""
        refused, access = "", StoreAccess(self._store)
        try:
            for times in itertools.count(1):
                verdict = await self._verdict(access, question, times, refused)
                if verdict is None or verdict.expired:
                    break
                decision = verdict.decision()
                if not decision.approved:
                    return Answer("decline")
                if not (refused := _problem(question.form, decision.value)):
                    return Answer("accept", decision.value if question.form else None)
            return Answer("cancel")
        finally:
            await access.aclose()  # it listens to the store as long as it is open

    async def withdraw(self) -> None:
        """Cancels the approvals that nobody waits for any more."""
        for key in list(self._open):
            self._open.discard(key)
            try:
                await cancel_execution(
                    StoreAccess(self._store), key, f"{self._tool} of the MCP server {self._server.name} does not ask it any more", wait=False
                )
            except (HasEnded, NotFound):
                continue

    async def _verdict(self, access: StoreAccess, question: Question, times: int, refused: str) -> ApprovalVerdict | None:
        """The verdict of people; None if the approval was cancelled."""
        key = Key(self.tenant, APPROVAL_WORKFLOW, self._id(question, times))
        self._open.add(key)
        self._info.heartbeat({"asks": shorten_text(question.message, TITLE_CHARACTERS_MAX), "approval": key.id})
        now_s = (await self._store.store_time()).now_s
        _ = await start_execution(access, self._request(key, question, refused, now_s))
        verdict: ApprovalVerdict | None = None
        try:
            verdict = values.decode(await wait_for_result(access.watch, self._store, key), ApprovalVerdict, "the verdict on a question of", self._info.path)
        except (ExecutionCancelled, ExecutionFailed) as ended:
            logger.warning("a question of the MCP server %s has no answer: %s", self._server.name, ended)
        self._open.discard(key)
        return verdict

    def _id(self, question: Question, times: int) -> str:
        asked = sha256(msgspec.json.encode((question.message, question.form, question.url, times), order="deterministic")).hexdigest()
        return child_id(f"{self._info.key}:asks:{asked[:16]}")

    def _request(self, key: Key, question: Question, refused: str, now_s: float) -> StartRequest:
        people, execution = self._server.elicitation, self._info.execution
        asked_by = f"{self._server.name}.{self._tool}"
        subject = ApprovalSubject(resource_type="execution", resource_id=f"{execution.workflow}/{execution.id}", deeplink=question.url)
        request = ApprovalRequest(
            title=shorten_text(question.message.strip() or f"{asked_by} asks for something", TITLE_CHARACTERS_MAX),
            details={"message": question.message, "asked by the tool": asked_by, **({"address": question.url} if question.url else {})},
            form=dict(question.form) if question.form else None,
            assignees=people.assignees,
            timeout_s=people.timeout_s,
            on_timeout="reject",
            refused=refused,
            subject=subject,
        )
        attributes = approval_attributes(subject, people.assignees, people.timeout_s, execution, now_s)
        return StartRequest(key=key, input=values.encode(((request,), {}), "what is asked", self._info.path), attributes=attributes)


def _problem(form: Mapping[str, Any] | None, filled: Any) -> str:
    """Says why an answer does not fit a form; empty if it does."""
    if not form:
        return ""
    if not isinstance(filled, Mapping):
        return "the form has to be filled in"
    try:
        return "; ".join(json_schema.schema_problems(dict(form), dict(filled))[:5])
    except (BadExpression, MissingExtra):  # it is no schema, or can't be checked here: the server checks the answer itself
        return ""
