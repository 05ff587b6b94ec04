"""The commands for agents: what model calls have cost, and what agents remember: `costs`, `memories`."""

from __future__ import annotations

import click

from perdure.cli.root_command import CliCommand
from perdure.cli.shared_options import GlobalOptions, format_option


@click.command("costs", cls=CliCommand)
@click.option("--within", default="1d", metavar="TIME", help="Of this time before now: 12h, 30d; three months are kept. Default: 1d.")
@click.option("--workflow", default="", metavar="NAME", help="Only of this workflow.")
@format_option()
@click.pass_obj
def costs(settings: GlobalOptions, /, *, within: str, workflow: str, format: str) -> None:
    """Show what the answers of models have cost in a tenant, by workflow, step and model."""
    from perdure.cli import output
    from perdure.cli.plain_text import TextCell, TextTable, cell
    from perdure.service.model_costs import ModelCost

    def row(one: ModelCost) -> tuple[TextCell, ...]:
        tokens = f"{one.input_tokens:,} in ({one.cache_read_tokens:,} cached), {one.output_tokens:,} out"
        unpriced = f"{one.unpriced} without a price" if one.unpriced else ""
        return tuple(map(cell, (one.workflow, one.step, one.model, f"{one.answers:,}", tokens, f"{one.cost_usd:.4f}", unpriced)))

    with settings.client() as client:
        found = client.model_costs(within, workflow=workflow, tenant=settings.tenant)
        names = dict.fromkeys(one.workflow for one in found.costs)
        head = ("WORKFLOW", "STEP", "MODEL", "ANSWERS", "TOKENS", "USD", "NOTE")
        output.print_list(format, names, found.costs, lambda: TextTable(head, tuple(map(row, found.costs))))
        if found.is_partial:
            click.echo("perdure: there were more answers than are summed; ask for a shorter time", err=True)


@click.command("memories", cls=CliCommand)
@click.argument("agent", metavar="AGENT")
@click.option("--forget", metavar="NAME", help="Remove what it remembers under this name.")
@format_option()
@click.pass_obj
def memories(settings: GlobalOptions, /, *, agent: str, forget: str | None, format: str) -> None:
    """Show what an agent remembers, by the name of its workflow: NAME.agent for the agents of a definition."""
    from perdure.cli import output
    from perdure.cli.plain_text import TextTable, cell

    with settings.client() as client:
        if forget is not None:
            client.forget_memory(agent, forget, tenant=settings.tenant)
            click.echo(f"{agent} has forgotten {forget}")
            return
        found = client.agent_memories(agent, tenant=settings.tenant)
        rows = tuple(tuple(map(cell, (one.name, one.execution, one.text))) for one in found)
        output.print_list(format, (one.name for one in found), found, lambda: TextTable(("NAME", "WRITTEN BY", "TEXT"), rows))
