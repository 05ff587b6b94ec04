"""The commands `propose` and `proposal …`: changes of definitions that somebody proposes, somebody else reviews, and that are then applied."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from perdure.cli.root_command import CliCommand, CliGroup
from perdure.cli.service_calls import with_service
from perdure.cli.shared_options import GlobalOptions, format_option, json_option, refuse_options
from perdure.cli.workflow_commands import read_document

if TYPE_CHECKING:
    from perdure.operations.local_service import LocalService
    from perdure.service.proposals.proposal_details import ProposalDetails

STATUSES = ("pending", "approved", "rejected", "applied", "failed")  # not imported, so that printing help is fast; a test compares them
id_argument = click.argument("id", metavar="ID")


@click.command("propose", cls=CliCommand)
@click.argument("slug", default="", metavar="[SLUG]")
@click.option("--file", "-f", "file", metavar="FILE", help="The document; - reads it from standard input.")
@click.option("--words", metavar="TEXT", help="In place of FILE: what it should do, in words, for a model that writes it; - reads them from standard input.")
@click.option("--new", is_flag=True, help="SLUG is that of a new definition.")
@click.option("--base", metavar="HASH", help="With --file: the version that the document was made from. If another one is current, the proposal is refused.")
@click.option("--note", default="", metavar="TEXT", help="With --file: why, for those who review it.")
@click.option("--model", default="", metavar="NAME", help="With --words: a model of --models or of the engine, or vendor:model; else the default one.")
@click.option(
    "--models", metavar="FILE", envvar="PERDURE_MODELS", help="With --words: the names of models, and the provider of each; the agent then runs here."
)
@click.option("--tools", multiple=True, metavar="PLACE", help="With --words and --models: tools that the definition may use, as for perdure run.")
@click.option("--max-turns", default=20, show_default=True, type=click.IntRange(1, 200), metavar="N", help="With --words: how many model calls it may take.")
@click.option("--max-cost", type=click.FloatRange(0, min_open=True), metavar="USD", help="With --words: how many US dollars it may cost.")
@click.option("--id", "agent_id", metavar="ID", help="With --words: the id of the agent: run again with it, the same agent continues.")
@click.option("--prompt-folder", metavar="DIR", help="With --words: a folder with another prompt (prompt.md, and examples/).")
@click.option("--print-prompt", "prints", is_flag=True, help="Print the prompt with the kinds of steps that are here, and do nothing else.")
@click.option("--export-prompt", "exports", metavar="DIR", help="Copy the files of the prompt to a folder, to be changed there, and do nothing else.")
@json_option
@click.pass_obj
def propose(
    settings: GlobalOptions, /, *, slug: str, file: str | None, words: str | None, as_json: bool, prints: bool, exports: str | None, **given: Any
) -> None:
    """Propose a document as the next version of the definition SLUG, which has to allow that (allow: {self_edit: true}).

    Without SLUG, it is proposed as a new definition. Somebody else reviews it; then it can be applied.

    With --words, a model writes the document or changes the present one, until it is valid, runs a trial of it on recorded
    inputs, and proposes it. It applies nothing.
    If it does not get there, the document that was nearest is printed with its findings.
    """
    from perdure.cli import proposal_agent_command

    if exports is not None:
        proposal_agent_command.export_prompt(exports)
    elif prints:
        proposal_agent_command.print_prompt(given["prompt_folder"])
    elif (file is None) == (words is None):
        raise click.UsageError("give --file or --words")
    elif words is not None:
        refuse_options(("base", "note"), "--base and --note are for --file")
        if settings.server_url() is not None:
            refuse_options(("models", "tools"), "an engine of the server runs the agent, with its own models and tools")
        wish = proposal_agent_command.agent_wish(words, slug, given)
        outcome = proposal_agent_command.run_agent(settings, wish, quiet=as_json)
        proposal_agent_command.print_outcome(outcome, as_json=as_json)
    elif file is not None:
        refuse_options(("model", "models", "tools", "max_turns", "max_cost", "agent_id", "prompt_folder"), "these options are for --words")
        _propose_file(settings, slug, file, given, as_json=as_json)


def _propose_file(settings: GlobalOptions, slug: str, file: str, given: Mapping[str, Any], *, as_json: bool) -> None:
    from perdure.async_proposals import AsyncProposals
    from perdure.cli import definition_files
    from perdure.core.errors import BadDefinition
    from perdure.operations import on_catalog

    new, base, note = given["new"], given["base"], given["note"]
    if base and (new or not slug):
        raise click.UsageError("--base is for a definition that there is; give its SLUG")
    document = read_document(file)

    async def done(call: LocalService) -> ProposalDetails:
        proposals = AsyncProposals(call.access)
        if slug and not new:
            return await proposals.create(slug, document, base=base, note=note, tenant=settings.tenant)
        checked = await call(on_catalog.validate, settings.tenant, document, slug)
        if not checked.valid:
            raise BadDefinition(checked.findings)
        return await proposals.create_new(checked.slug, document, note=note, tenant=settings.tenant)

    try:
        found = with_service(settings, done, creates=not slug or new)
    except BadDefinition as error:
        definition_files.refuse_definition(file, list(error.findings), "nothing was proposed")
    then = f"; it changes {', '.join(found.widens_rights)}, so an admin has to review it" if found.widens_rights else ""
    _print_one(found, as_json, f"proposed as {found.id}{then}")


@click.group("proposal", cls=CliGroup)
def proposal() -> None:
    """Proposals of changes of definitions: look at, review and apply them. perdure propose makes one."""


@click.command("ls", cls=CliCommand)
@click.argument("slug", default="", metavar="[SLUG]")
@click.option("--status", type=click.Choice(STATUSES), help="Only those of this status.")
@click.option("--open/--closed", "is_open", default=None, help="Only those that are pending or approved, or only the others.")
@click.option("--limit", default=100, show_default=True, type=click.IntRange(1), metavar="N", help="How many, newest first.")
@json_option
@format_option()
@click.pass_obj
def ls(settings: GlobalOptions, /, *, slug: str, status: Any, is_open: bool | None, limit: int, as_json: bool, format: str) -> None:
    """List proposals, newest first: all, or those for the definition SLUG."""
    from perdure.async_proposals import AsyncProposals
    from perdure.cli import output, proposal_views

    async def listed(call: LocalService) -> Any:
        return await AsyncProposals(call.access).list(slug, status=status, open=is_open, limit=limit, tenant=settings.tenant)

    found = with_service(settings, listed)
    output.print_list("json" if as_json else format, (one.id for one in found), found, lambda: proposal_views.proposal_table(found))
    if not found and format == "table" and not as_json:
        click.echo("perdure: there are no such proposals\nperdure propose SLUG --file FILE.yaml makes one", err=True)


@click.command("show", cls=CliCommand)
@id_argument
@click.option("--document", is_flag=True, help="Print the document as it was proposed, and nothing else.")
@json_option
@click.pass_obj
def show(settings: GlobalOptions, /, *, id: str, document: bool, as_json: bool) -> None:
    """Show a proposal: what it changes, who has proposed it, and what has become of it."""
    from perdure.operations import on_proposals

    async def read(call: LocalService) -> ProposalDetails:
        return await call(on_proposals.read, settings.tenant, id)

    found = with_service(settings, read)
    if document:
        click.echo(found.received, nl=not found.received.endswith("\n"))
    else:
        _print_one(found, as_json)


@click.command("review", cls=CliCommand)
@id_argument
@click.option("--approve", "decision", flag_value="approve", help="It can be applied then.")
@click.option("--reject", "decision", flag_value="reject", help="It stays as it is for good.")
@click.option("--notes", default="", metavar="TEXT", help="What those who read it later should know.")
@json_option
@click.pass_obj
def review(settings: GlobalOptions, /, *, id: str, decision: Any, notes: str, as_json: bool) -> None:
    """Approve or reject a proposal of somebody else. One that widens rights needs an admin."""
    from perdure.operations import on_proposals

    if decision is None:
        raise click.UsageError("pass --approve or --reject")

    async def reviewed(call: LocalService) -> ProposalDetails:
        return await call(on_proposals.review, call.caller, id, decision, notes)

    found = with_service(settings, reviewed)
    then = f"; perdure proposal apply {found.id} publishes it" if found.status == "approved" else ""
    _print_one(found, as_json, f"the proposal for {found.slug} is {found.status}{then}")


@click.command("apply", cls=CliCommand)
@id_argument
@json_option
@click.pass_obj
def apply(settings: GlobalOptions, /, *, id: str, as_json: bool) -> None:
    """Publish the document of an approved proposal as the current version."""
    from perdure.operations import on_proposals

    async def applied(call: LocalService) -> ProposalDetails:
        return await call(on_proposals.apply, settings.tenant, id, call.author)

    found = with_service(settings, applied)
    _print_one(found, as_json, f"{found.slug} is at version {found.applied_version} ({found.workflow_hash})")


@click.command("try", cls=CliCommand)
@click.argument("id", default="", metavar="[ID]")
@click.option("--workflow", default="", metavar="SLUG", help="Without ID: the workflow on whose executions --file is tried.")
@click.option("--file", "-f", "file", metavar="FILE", help="Without ID: the document; - reads it from standard input.")
@click.option("--last", default=10, show_default=True, type=click.IntRange(1, 100), metavar="N", help="On how many executions, newest first.")
@click.option("--mock", "mocks", multiple=True, metavar="STEP=JSON", help="The value of a step that has no recorded result.")
@json_option
@click.pass_obj
def try_(settings: GlobalOptions, /, *, id: str, workflow: str, file: str | None, last: int, mocks: tuple[str, ...], as_json: bool) -> None:
    """Try a proposal, or a document, on what the latest executions have recorded. No step is performed, and nothing is changed.

    A step with the same id and input has its recorded result. At a step without one the outcome is unknown, unless --mock gives its value.
    """
    from perdure.async_proposals import AsyncProposals
    from perdure.cli import output, proposal_views
    from perdure.cli.argument_values import parse_pairs
    from perdure.cli.terminal import screen

    if bool(id) == bool(workflow and file) or (id and (workflow or file)):
        raise click.UsageError("give the ID of a proposal, or --workflow and --file")
    given, document = parse_pairs(mocks, {}, "--mock"), b"" if file is None else read_document(file)

    async def tried(call: LocalService) -> Any:
        proposals = AsyncProposals(call.access)
        if id:
            return await proposals.try_proposal(id, last=last, mocks=given, tenant=settings.tenant)
        return await proposals.try_document(workflow, document, last=last, mocks=given, tenant=settings.tenant)

    found = with_service(settings, tried)
    if as_json:
        click.echo(output.indented_json({**output.as_data(found), "items": [output.as_data(one) for one in found.items]}))
    else:
        output.show_lines(proposal_views.trial_lines(found), screen())


def _print_one(found: ProposalDetails, as_json: bool, said: str = "") -> None:
    """Prints a proposal: in JSON, as a line that says what was done, or in full."""
    from perdure.cli import output, proposal_views
    from perdure.cli.terminal import screen

    if as_json:
        shown = {name: value for name, value in output.as_data(found).items() if name not in ("received", "proposal_json")}
        click.echo(output.indented_json(shown))
    elif said:
        click.echo(said)
    else:
        output.show_lines(proposal_views.proposal_lines(found), screen())


proposal.section("Look", (ls, show, try_))
proposal.section("Decide", (review, apply))
