"""`perdure propose --words`: a proposal agent on a server, or in this process, with what it does as it goes."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

import click

from perdure.cli.exit_codes import CommandExit, ExitCode

if TYPE_CHECKING:
    from perdure.cli.shared_options import GlobalOptions
    from perdure.definitions.kinds.deployment import Deployment
    from perdure.operations.local_service import LocalService
    from perdure.service.proposal_agent.proposal_progress import ProposalAgentState
    from perdure.service.proposals.proposal_details import ProposalDetails

POLL_S = 0.3
"""The time between two looks at an agent."""


class AgentWish(NamedTuple):
    """What the options ask for: the words, the definition (empty: a new one), and how the agent may work. `options` are those of the operation."""

    words: str
    slug: str
    id: str
    options: Mapping[str, Any]
    models: str | None
    tools: tuple[str, ...]


class AgentOutcome(NamedTuple):
    """How an agent has ended, and its proposal."""

    agent: ProposalAgentState
    proposal: ProposalDetails | None


def agent_wish(words: str, slug: str, given: Mapping[str, Any]) -> AgentWish:
    """What the options of the command ask for; the words are read from standard input if they are ``-``."""
    from perdure.service.proposal_agent.proposal_prompt import read_prompt

    text = sys.stdin.read() if words == "-" else words
    instructions = "" if given["prompt_folder"] is None else read_prompt(Path(given["prompt_folder"]))
    limits = {"max_turns": given["max_turns"], "max_cost_usd": given["max_cost"]}
    options = {"new": given["new"], "model": given["model"], "instructions": instructions, **limits}
    return AgentWish(text, slug, given["agent_id"] or uuid4().hex, options, given["models"], given["tools"])


def run_agent(settings: GlobalOptions, wish: AgentWish, *, quiet: bool) -> AgentOutcome:
    """Runs an agent to its end: on the server that the options name, else in this process if they name models, else in a running engine of the database."""
    from perdure.core.errors import NotFound

    try:
        return asyncio.run(_run(settings, wish, quiet))
    except NotFound as error:
        raise CommandExit(ExitCode.INPUT, str(error)) from error
    except KeyboardInterrupt:
        again = f"perdure propose {wish.slug} --words ... --id {wish.id}".replace("  ", " ")
        stops = f"perdure cancel perdure.propose/{wish.id}"
        click.echo(f"perdure: the agent was interrupted\n{again} continues it here, and shows what an engine does with it\n{stops} ends it", err=True)
        raise


async def _run(settings: GlobalOptions, wish: AgentWish, quiet: bool) -> AgentOutcome:
    from perdure.async_client import AsyncClient
    from perdure.operations.local_service import LocalService

    deployment = None if settings.server_url() is not None else _deployment(wish)
    url, token = settings.server_or_database(creates=not wish.slug or bool(wish.options["new"]))
    if wish.tools and deployment is None:
        raise click.UsageError("--tools is for an agent that runs in this process, with --models; an engine has its own tools")
    if token is not None or deployment is None or (url or "").startswith(("http://", "https://")):
        async with AsyncClient(url, token=token) as client:
            return await _worked(LocalService(client._access, settings.tenant), settings.tenant, wish, quiet)
    from perdure.app import App
    from perdure.cli.targets import load_tools
    from perdure.definition_workflow import tool_steps
    from perdure.service.proposal_agent.proposal_agent_workflow import proposal_agent_workflow
    from perdure.workflow_function import Workflow

    steps = tool_steps(load_tools(wish.tools, deployment.models).steps) if wish.tools else {}
    agent: Workflow[..., Any] = Workflow(proposal_agent_workflow(deployment, steps), list)
    async with App([agent], db=url, grace="1s") as app:
        return await _worked(LocalService(app.client._access, settings.tenant), settings.tenant, wish, quiet)


def _deployment(wish: AgentWish) -> Deployment | None:
    """The models that this process has for the agent; None if the options name none."""
    from perdure.cli.definition_files import load_models
    from perdure.definitions.kinds.deployment import Deployment
    from perdure.definitions.kinds.models.model_sources import model_source

    known: dict[str, Any] = {} if wish.models is None else dict(load_models(wish.models))
    name = str(wish.options["model"])
    if ":" in name and name not in known:
        known[name] = model_source({}, name)
    return Deployment(models=known) if known else None


async def _worked(call: LocalService, tenant: str, wish: AgentWish, quiet: bool) -> AgentOutcome:
    from perdure.operations import on_proposals

    started = await call(on_proposals.start_agent, call.caller, wish.words, wish.slug, agent_id=wish.id, **wish.options)
    if not quiet:
        click.echo(f"perdure: {'started' if started.created else 'found'} perdure.propose/{wish.id}", err=True)
    shown = 0
    while True:
        state = await call(on_proposals.read_agent, tenant, wish.id)
        done = [one for one in state.steps if one.did]
        for one in done[shown:]:
            if not quiet:
                _print_step(one.did, failed=one.failed)
        shown = len(done)
        if state.ended:
            break
        await asyncio.sleep(POLL_S)
    proposal = await call(on_proposals.read, tenant, state.proposal) if state.proposal else None
    return AgentOutcome(state, proposal)


def _print_step(did: str, *, failed: bool) -> None:
    from perdure.cli import terminal_text

    click.echo(f"  {terminal_text.safe_lines(did)}{' (refused)' if failed else ''}", err=True)


def print_outcome(outcome: AgentOutcome, *, as_json: bool) -> None:
    """Prints the proposal with its diff; or, if there is none, the document that was nearest to it, and why. Without a proposal, the command fails."""
    from perdure.cli import output, proposal_views
    from perdure.cli.terminal import screen

    agent, proposal = outcome
    if as_json:
        shown = None if proposal is None else {name: value for name, value in output.as_data(proposal).items() if name not in ("received", "proposal_json")}
        click.echo(output.indented_json({"agent": output.as_data(agent), "proposal": shown}))
    elif proposal is not None:
        output.show_lines(proposal_views.proposal_lines(proposal), screen())
    elif agent.document:
        click.echo(agent.document, nl=not agent.document.endswith("\n"))
    _say_how_to_go_on(agent, proposal)


def _say_how_to_go_on(agent: ProposalAgentState, proposal: ProposalDetails | None) -> None:
    from perdure.cli import terminal_text

    cost = "" if agent.cost_usd is None else f", {agent.cost_usd:.4f} USD"
    calls, tokens = terminal_text.count(agent.calls, "model call"), terminal_text.count(agent.tokens, "token")
    if proposal is not None:
        click.echo(f"perdure: {calls}, {tokens}{cost}; perdure proposal review {proposal.id} --approve, then perdure proposal apply {proposal.id}", err=True)
        return
    lines = [f"nothing was proposed after {calls}, {tokens}{cost}: {agent.why or agent.status}"]
    lines += [f"  line {one.line}: {one.message}" if one.line else f"  {one.message}" for one in agent.findings]
    if agent.document:
        lines.append("the document that was nearest is printed; perdure propose --file FILE proposes it when it is corrected")
    if agent.status == "failed":
        lines.append(f"perdure retry perdure.propose/{agent.key.id} grants the budget once more, and the agent goes on")
    raise CommandExit(ExitCode.FAILED, "\n".join(map(terminal_text.safe_lines, lines)))


def print_prompt(folder: str | None) -> None:
    """Prints the prompt as a model is given it, with the kinds of this process."""
    from perdure.service.proposal_agent.proposal_prompt import PROMPT_FOLDER, instructions_of, read_prompt

    click.echo(instructions_of(read_prompt(PROMPT_FOLDER if folder is None else Path(folder))))


def export_prompt(folder: str) -> None:
    """Copies the files of the prompt to a folder."""
    from perdure.service.proposal_agent import proposal_prompt

    for file in proposal_prompt.export_prompt(Path(folder)):
        click.echo(str(file))
