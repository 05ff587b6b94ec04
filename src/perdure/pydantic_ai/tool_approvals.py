"""Asks people whether an agent may use a tool: each call that requires an approval becomes an approval of the workflow."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from pydantic_ai import DeferredToolRequests, DeferredToolResults, ToolApproved, ToolDenied
from pydantic_ai.messages import ToolCallPart

from perdure.agent_steps import ask_about_tool, rejection_reason
from perdure.code.approval_requests import ApproveKeywords
from perdure.code.context import Context, VerbCall
from perdure.code.results import Decision

APPROVED = ToolApproved()


async def decide_tools(context: Context, agent: str, requests: DeferredToolRequests, options: ApproveKeywords) -> DeferredToolResults | None:
    """Asks about all calls at the same time; returns the decisions, or None if no call requires one. What was deferred for another reason stays deferred."""
    if not requests.approvals:
        return None
    asked = [_ask(context, agent, call, requests.metadata.get(call.tool_call_id), options) for call in requests.approvals]
    decisions = await asyncio.gather(*asked)
    return DeferredToolResults(approvals={call.tool_call_id: _verdict(made) for call, made in zip(requests.approvals, decisions, strict=True)})


def _ask(context: Context, agent: str, call: ToolCallPart, metadata: Mapping[str, Any] | None, options: ApproveKeywords) -> VerbCall[Decision[Any]]:
    return ask_about_tool(context, agent, call.tool_name, {"arguments": call.args_as_dict(), **({"metadata": metadata} if metadata else {})}, options)


def _verdict(decision: Decision[Any]) -> ToolApproved | ToolDenied:
    return APPROVED if decision else ToolDenied(rejection_reason(decision))
