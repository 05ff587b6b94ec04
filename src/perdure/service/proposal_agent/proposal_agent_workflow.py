"""The workflow of proposal agents: an agent whose last tool files a proposal on behalf of whoever has asked for it.

Its log has everything: the prompt and the definition that it began with, each document that it wrote with its findings, each trial. A kill loses nothing, and
an agent whose budget is used up is retried with another one, and goes on.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec

from perdure.code.context import Context
from perdure.code.declarations import CodeWorkflow, Step
from perdure.code.step_environment import current_resources, step_info
from perdure.core.errors import Fatal, PerdureError, StoreError
from perdure.core.operations import PROPOSAL_AGENT_WORKFLOW
from perdure.definitions.kinds.agents.agent_profile import DEFAULT_PROMPT, AgentProfile
from perdure.definitions.kinds.agents.agent_task import AgentTask, Budget
from perdure.definitions.kinds.agents.agent_workflow import perform_agent_task
from perdure.definitions.kinds.deployment import Deployment
from perdure.definitions.kinds.kind_descriptions import ToolDescription, describe_tool
from perdure.service import catalog
from perdure.service.proposal_agent.document_check import running_tools
from perdure.service.proposal_agent.proposal_order import TOKENS_MAX, ProposalOrder, check_limits, new_slug
from perdure.service.proposal_agent.proposal_prompt import PresentDefinition, instructions_of, read_prompt, task_text
from perdure.service.proposal_agent.proposal_tools import FINAL_TOOLS, PROPOSE, TOOL_NAMES, AgentBrief, FiledByAgent, ProposalTools
from perdure.service.proposals.proposal_changes import proposal_base
from perdure.service.store_access import StoreAccess

NUDGES = 3
"""How often a model that answers without filing or giving up is told to go on."""

WALL = "1h"
"""How long an agent may work in all."""


class ProposalAgentResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How an agent has ended: with a `proposal` of the definition `slug`; or it has given up, and `why`. `cost_usd` is None if a price is not known."""

    proposal: str = ""
    slug: str = ""
    why: str = ""
    calls: int = 0
    tokens: int = 0
    cost_usd: float | None = None


def proposal_agent_workflow(deployment: Deployment, tools: Mapping[str, Step[Any, Any, Any]]) -> CodeWorkflow:
    """The workflow of an engine with these models, whose definitions may use these tools."""

    async def begin_proposal(order: ProposalOrder) -> AgentBrief:
        return await _brief(order, deployment, tools)

    begin: Step[Any, Any, Any] = Step(begin_proposal, name="begin_proposal", idempotent=True)

    async def propose_from_words(ctx: Context, order: ProposalOrder) -> ProposalAgentResult:
        brief: AgentBrief = await ctx.step(begin, order)
        profile = AgentProfile(
            PROPOSAL_AGENT_WORKFLOW,
            ProposalTools(order, brief, tools).find,
            TOOL_NAMES,
            model=brief.model,
            instructions=brief.instructions,
            budget=Budget(calls=order.max_turns, tokens=TOKENS_MAX, cost_usd=order.max_cost_usd, wall=WALL),
            repairs=NUDGES,
            final=FINAL_TOOLS,
            deployment=deployment,
        )
        found = await perform_agent_task(ctx, profile, AgentTask(prompt=brief.task))
        spent: dict[str, Any] = {"calls": found.spent.calls, "tokens": found.spent.tokens, "cost_usd": found.spent.cost_usd}
        if found.tools[-1].tool != PROPOSE and not any(one.tool == PROPOSE and not one.failed for one in found.tools):
            return ProposalAgentResult(why=str(found.output), slug=order.slug, **spent)
        filed = msgspec.json.decode(found.output, type=FiledByAgent)
        return ProposalAgentResult(proposal=filed.proposal, slug=filed.slug, **spent)

    return CodeWorkflow(propose_from_words, PROPOSAL_AGENT_WORKFLOW)


async def _brief(order: ProposalOrder, deployment: Deployment, tools: Mapping[str, Step[Any, Any, Any]]) -> AgentBrief:
    """What an agent begins with. The order is checked here as well, since others than `on_proposals.start_agent` can start an agent.

    Raises:
        Fatal: the order is not valid, the model is not known, or the definition can't be changed.
    """
    access, tenant = StoreAccess(current_resources.get().store), step_info().execution.tenant
    model = known_model(order.model, deployment)
    try:
        check_limits(order)
        if order.is_new:
            _ = await new_slug(access, tenant, order.slug)
        base = None if order.is_new else await proposal_base(access, tenant, order.slug)
        page = await catalog.list_definitions(access, tenant, limit=100)
        prompt = await asyncio.to_thread(lambda: instructions_of(order.instructions or read_prompt()))
    except StoreError:
        raise
    except PerdureError as error:
        raise Fatal(str(error)) from error
    document = "" if base is None else base.received.decode("utf-8", "replace")
    present = PresentDefinition(order.slug, "" if base is None else base.hash, document)
    described = [describe_tool(name, step) for name, step in tools.items()]
    others = sorted(await running_tools(access, tenant) - set(tools))
    described += [ToolDescription(name, "", {}, "", False, 0, None, False) for name in others]
    workflows = {one.slug: one.description for one in page.items} | {one.slug: "a workflow of code" for one in page.code}
    return AgentBrief(model=model, instructions=prompt, task=task_text(order.words, present, described, workflows), present=present)


def known_model(name: str, deployment: Deployment) -> str:
    """The name of a model of the deployment; that of the default one for an empty name.

    Raises:
        Fatal: the deployment has none of this name, or no default.
    """
    known = deployment.models
    found = name or (DEFAULT_PROMPT if DEFAULT_PROMPT in known else next(iter(known)) if len(known) == 1 else "")
    if found in known:
        return found
    listed = ", ".join(sorted(known)) or "none"
    wanted = f"the engine has no model {name!r}" if name else "no model was named, and none is called 'default'"
    raise Fatal(f"{wanted}; it has {listed}. Name one of them, or add it to the models file of the engine")
