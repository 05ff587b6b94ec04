"""Reads and writes of sessions as steps."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from agents import Session, SessionSettings, TResponseInputItem, UserError
from agents.memory import is_openai_responses_compaction_aware_session

from perdure.agent_steps import AgentStepOptions
from perdure.code.step_environment import step_info
from perdure.openai_agents.agent_run import run_step


class DurableSession:
    """A session whose reads and writes are steps.

    A write that was interrupted is repeated, unless the session ends with what it would add. So nothing is added twice, if only one run at a time uses the
    session.
    """

    def __init__(self, session: Session, options: AgentStepOptions) -> None:
        self._session, self._options = session, options
        self.session_id = session.session_id
        self.session_settings: SessionSettings | None = getattr(session, "session_settings", None)

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """Returns the items of the session, or the last `limit` of them."""
        found: list[TResponseInputItem] = await self._request("get_items", lambda: self._session.get_items(limit))
        return found

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Appends items, once."""

        async def add() -> None:
            if step_info().attempt == 1 or await self._session.get_items(len(items)) != items:
                await self._session.add_items(items)

        await self._request("add_items", add)

    async def pop_item(self) -> TResponseInputItem | None:
        """Removes the last item, and returns it."""
        options: AgentStepOptions = {**self._options, "idempotent": False}
        found: TResponseInputItem | None = await run_step("session.pop_item", self._session.pop_item, options)
        return found

    async def clear_session(self) -> None:
        """Removes all items."""
        await self._request("clear_session", self._session.clear_session)

    async def _request(self, what: str, ask: Callable[[], Awaitable[Any]]) -> Any:
        return await run_step(f"session.{what}", ask, self._options)


def durable_session(session: Session, options: AgentStepOptions) -> DurableSession:
    """Returns a session whose reads and writes are steps with these options.

    Raises:
        UserError: it asks models to make it shorter, which would be no step.
    """
    if isinstance(session, DurableSession):
        return session
    if is_openai_responses_compaction_aware_session(session):
        raise UserError("A session that compacts itself by requests to a model can't be used in a workflow. Pass the session that it wraps, or an input list")
    return DurableSession(session, options)
