"""The commands `workflow …` and `sync`: the definitions of the catalog, their versions, tags and drafts, over a database or a server."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from perdure.cli.exit_codes import CommandExit, ExitCode
from perdure.cli.root_command import CliCommand, CliGroup
from perdure.cli.service_calls import with_service
from perdure.cli.shared_options import GlobalOptions, format_option, json_option

if TYPE_CHECKING:
    from perdure.operations.local_service import LocalService
    from perdure.service.catalog import CatalogDefinition, CheckedDocument

PAGE = 500
note_option = click.option("--note", default="", metavar="TEXT", help="Why: it is kept in the history.")
slug_argument = click.argument("slug", metavar="SLUG")


@click.group("workflow", cls=CliGroup)
def workflow() -> None:
    """Definitions in the catalog: publish, look at, tag, roll back and delete them.

    A REFERENCE names a version: invoice, invoice@1.2.0, invoice@^1, invoice@sha256:3f2a91c0d4…, invoice:production.
    """


@click.command("ls", cls=CliCommand)
@click.option("--search", default="", metavar="TEXT", help="Only those with this text in their slug, name, description or tags.")
@click.option("--tag", default="", metavar="TAG", help="Only those with this tag.")
@click.option("--enabled/--disabled", "enabled", default=None, help="Only those that may be started, or that may not.")
@click.option("--draft", "has_draft", is_flag=True, default=None, help="Only those that have a draft.")
@json_option
@format_option()
@click.pass_obj
def ls(settings: GlobalOptions, /, *, as_json: bool, format: str, **where: Any) -> None:
    """List definitions, and below them the workflows of code that running engines have."""
    from perdure.cli import catalog_views, output
    from perdure.operations import on_catalog
    from perdure.service.catalog import CatalogDefinition
    from perdure.service.code_workflows import ListedCodeWorkflow

    async def listed(call: LocalService) -> list[CatalogDefinition | ListedCodeWorkflow]:
        items, code, after = list[CatalogDefinition](), list[ListedCodeWorkflow](), ""
        while True:
            page = await call(
                on_catalog.page, settings.tenant, where["search"], where["tag"], enabled=where["enabled"], has_draft=where["has_draft"], limit=PAGE, after=after
            )
            items, code = items + page.items, code + page.code
            if page.next is None:
                return [*items, *code]
            after = page.next

    found = with_service(settings, listed)
    output.print_list("json" if as_json else format, (one.slug for one in found), found, lambda: catalog_views.definition_table(found))
    if not found and format == "table" and not as_json:
        click.echo("perdure: there are no such definitions\nperdure workflow publish FILE.yaml publishes one", err=True)


@click.command("show", cls=CliCommand)
@click.argument("reference", metavar="REFERENCE")
@click.option("--document", is_flag=True, help="Print the document of the version as it was published, and nothing else.")
@json_option
@click.pass_obj
def show(settings: GlobalOptions, /, *, reference: str, document: bool, as_json: bool) -> None:
    """Show a definition, and the version that REFERENCE names."""
    from perdure.cli import catalog_views, output
    from perdure.operations import on_catalog

    async def read(call: LocalService) -> Any:
        if not any(mark in reference for mark in "@:"):
            definition = await call(on_catalog.read, settings.tenant, reference)
            return definition, await call(on_catalog.version, settings.tenant, reference) if definition.hash else None
        version = await call(on_catalog.version, settings.tenant, reference)
        return await call(on_catalog.read, settings.tenant, version.slug), version

    definition, version = with_service(settings, read)
    if document:
        if version is None:
            raise CommandExit(ExitCode.INPUT, f"{definition.slug} has no version yet, only a draft\nperdure workflow draft {definition.slug} prints it")
        click.echo(version.received, nl=not version.received.endswith("\n"))
    elif as_json:
        shown = {} if version is None else {name: value for name, value in output.as_data(version).items() if name not in ("received", "canonical")}
        click.echo(output.indented_json({"definition": output.as_data(definition), "version": shown or None}))
    else:
        for line in catalog_views.definition_lines(definition, version):
            click.echo(line)


@click.command("validate", cls=CliCommand)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@json_option
@click.pass_obj
def validate(settings: GlobalOptions, /, *, files: tuple[str, ...], as_json: bool) -> None:
    """Check documents as publishing would, and whether what they call is in the catalog. Nothing is stored."""
    from perdure.cli import output
    from perdure.operations import on_catalog

    async def checked(call: LocalService) -> list[CheckedDocument]:
        return [await call(on_catalog.validate, settings.tenant, read_document(file)) for file in files]

    found = with_service(settings, checked, creates=True)
    if as_json:
        click.echo(output.indented_json([{"file": file, **output.as_data(one)} for file, one in zip(files, found, strict=True)]))
    for file, one in zip(files, found, strict=True):
        if not as_json:
            _print_checked(file, one)
    if not all(one.valid for one in found):
        raise CommandExit(ExitCode.INPUT)


def _print_checked(file: str, one: CheckedDocument) -> None:
    from perdure.cli import definition_files, terminal_text

    for finding in one.findings:
        click.echo(definition_files.finding_line(file, finding))
    if one.valid:
        click.echo(terminal_text.clean(f"{definition_files.source_name(file)}: {one.slug} {one.version}, {one.hash}"))


def read_document(file: str) -> bytes:
    """The content of a file, or of standard input; the command ends if it can't be read or is empty."""
    from perdure.cli import definition_files

    return definition_files.read_or_exit(file)


@click.command("publish", cls=CliCommand)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--slug", default="", metavar="SLUG", help="The name in the catalog; otherwise it is made of the name in the document.")
@click.option("--part", type=click.Choice(["major", "minor", "patch"]), help="Which part of the version number rises; otherwise minor.")
@note_option
@json_option
@click.pass_obj
def publish(settings: GlobalOptions, /, *, files: tuple[str, ...], slug: str, part: Any, note: str, as_json: bool) -> None:
    """Publish documents: each becomes the current version of its definition, which is created if it is not there.

    A document that says the same as the current version changes nothing.
    """
    from perdure.cli import output

    if slug and len(files) > 1:
        raise click.UsageError("--slug is for one file; publish the others without it")

    async def published(call: LocalService) -> list[CatalogDefinition]:
        return [await _publish(call, settings, file, slug, part, note) for file in files]

    found = with_service(settings, published, creates=True)
    if as_json:
        click.echo(output.indented_json([output.as_data(one) for one in found]))
    else:
        for one in found:
            click.echo(f"{one.slug} is at version {one.version} ({one.hash})")


async def _publish(call: LocalService, settings: GlobalOptions, file: str, slug: str, part: Any, note: str) -> CatalogDefinition:
    from perdure.cli import definition_files
    from perdure.core.errors import NotFound
    from perdure.operations import on_catalog

    document = read_document(file)
    checked = await call(on_catalog.validate, settings.tenant, document, slug)
    if not checked.valid:
        definition_files.refuse_definition(file, checked.findings, "nothing was published")
    for finding in checked.findings:
        click.echo(definition_files.finding_line(file, finding), err=True)
    try:
        _ = await call(on_catalog.read, settings.tenant, checked.slug)
    except NotFound:
        return await call(on_catalog.create, settings.tenant, document, call.author, checked.slug, note=note)
    return await call(on_catalog.update, settings.tenant, checked.slug, call.author, document, part=part, note=note)


@click.command("draft", cls=CliCommand)
@slug_argument
@click.argument("file", required=False, metavar="[FILE]")
@click.option("--publish", "publishes", is_flag=True, help="Publish the draft as the current version.")
@click.option("--discard", is_flag=True, help="Remove the draft.")
@note_option
@click.pass_obj
def draft(settings: GlobalOptions, /, *, slug: str, file: str | None, publishes: bool, discard: bool, note: str) -> None:
    """Print the draft of a definition; with FILE, keep that as the draft. It need not be valid, and nothing that runs sees it."""
    from perdure.operations import on_catalog

    if publishes + discard + (file is not None) > 1:
        raise click.UsageError("give a FILE, or --publish, or --discard")

    async def done(call: LocalService) -> str:
        if file is not None:
            _ = await call(on_catalog.save_draft, settings.tenant, slug, read_document(file), call.author)
            return f"{slug} has a draft\n"
        if discard:
            _ = await call(on_catalog.discard_draft, settings.tenant, slug, call.author)
            return f"the draft of {slug} is removed\n"
        found = await call(on_catalog.draft, settings.tenant, slug)
        if publishes:
            one = await call(on_catalog.update, settings.tenant, slug, call.author, found.document, note=note)
            return f"{one.slug} is at version {one.version} ({one.hash})\n"
        return found.document.decode(errors="replace")

    said = with_service(settings, done, creates=file is not None)
    click.echo(said, nl=not said.endswith("\n"))


@click.command("history", cls=CliCommand)
@slug_argument
@click.option("--versions", is_flag=True, help="Only the publications of versions.")
@click.option("--limit", default=50, show_default=True, metavar="N", help="How many entries, newest first.")
@json_option
@format_option()
@click.pass_obj
def history(settings: GlobalOptions, /, *, slug: str, versions: bool, limit: int, as_json: bool, format: str) -> None:
    """List what happened to a definition, newest first. The history stays when the definition is deleted."""
    from perdure.cli import catalog_views, output
    from perdure.operations import on_catalog

    async def read(call: LocalService) -> Any:
        return await call(on_catalog.history, settings.tenant, slug, limit, versions_only=versions)

    page = with_service(settings, read)
    shown = "json" if as_json else format
    output.print_list(shown, (one.version or str(one.number) for one in page.items), page.items, lambda: catalog_views.event_table(page.items))
    if page.next is not None and shown == "table":
        click.echo("perdure: there is more: pass a higher --limit", err=True)


@click.command("diff", cls=CliCommand)
@click.argument("before", metavar="REFERENCE")
@click.argument("after", metavar="REFERENCE")
@json_option
@click.pass_obj
def diff(settings: GlobalOptions, /, *, before: str, after: str, as_json: bool) -> None:
    """Print the differences between two versions, step by step; formatting is ignored."""
    from perdure.cli import output, terminal_text
    from perdure.operations import on_catalog

    async def compared(call: LocalService) -> Any:
        return await call(on_catalog.diff, settings.tenant, before, after)

    found = with_service(settings, compared)
    if as_json:
        click.echo(output.indented_json(output.as_data(found)))
        return
    for line in found.text.splitlines():
        click.echo(terminal_text.clean(line))
    if not found.changes:
        click.echo(f"perdure: {found.before} and {found.after} are equal", err=True)


@click.command("rollback", cls=CliCommand)
@slug_argument
@click.argument("version", metavar="VERSION")
@note_option
@json_option
@click.pass_obj
def rollback(settings: GlobalOptions, /, *, slug: str, version: str, note: str, as_json: bool) -> None:
    """Make an earlier VERSION current again, given by its number or its hash. It gets a new number, above all others."""
    from perdure.cli import output
    from perdure.operations import on_catalog

    async def done(call: LocalService) -> Any:
        return await call(on_catalog.roll_back, settings.tenant, slug, call.author, version, note=note)

    found = with_service(settings, done)
    one = found.definition
    if as_json:
        click.echo(output.indented_json({**output.as_data(one), "already_at_version": found.already_at_version}))
    elif found.already_at_version:
        click.echo(f"{one.slug} is at version {one.version}, which is that content already; nothing was changed")
    else:
        click.echo(f"{one.slug} is at version {one.version}, with the content of {version}")


@click.command("tag", cls=CliCommand)
@slug_argument
@click.argument("tag", metavar="TAG")
@click.argument("version", default="", metavar="[VERSION]")
@note_option
@click.pass_obj
def tag_(settings: GlobalOptions, /, *, slug: str, tag: str, version: str, note: str) -> None:
    """Have TAG name a version, given by its number, a range or its hash; without one, the current version."""
    from perdure.operations import on_catalog

    async def done(call: LocalService) -> Any:
        return await call(on_catalog.move_tag, settings.tenant, slug, tag, call.author, version, note=note)

    one = with_service(settings, done)
    click.echo(f"{one.slug}:{tag} is version {one.version_tags[tag].version}")


@click.command("untag", cls=CliCommand)
@slug_argument
@click.argument("tag", metavar="TAG")
@note_option
@click.pass_obj
def untag(settings: GlobalOptions, /, *, slug: str, tag: str, note: str) -> None:
    """Remove a tag. The version that it named stays."""
    from perdure.operations import on_catalog

    async def done(call: LocalService) -> Any:
        return await call(on_catalog.remove_tag, settings.tenant, slug, tag, call.author, note=note)

    click.echo(f"{with_service(settings, done).slug} has no tag {tag} any more")


@click.command("enable", cls=CliCommand)
@slug_argument
@note_option
@click.pass_obj
def enable(settings: GlobalOptions, /, *, slug: str, note: str) -> None:
    """Let a definition be started."""
    _set_enabled(settings, slug, note, enabled=True)


@click.command("disable", cls=CliCommand)
@slug_argument
@note_option
@click.pass_obj
def disable(settings: GlobalOptions, /, *, slug: str, note: str) -> None:
    """Let a definition not be started, nor called by executions that start. What runs goes on."""
    _set_enabled(settings, slug, note, enabled=False)


def _set_enabled(settings: GlobalOptions, slug: str, note: str, *, enabled: bool) -> None:
    from perdure.operations import on_catalog
    from perdure.service.catalog_changes import DefinitionFields

    async def done(call: LocalService) -> Any:
        return await call(on_catalog.update, settings.tenant, slug, call.author, fields=DefinitionFields(enabled=enabled), note=note)

    one = with_service(settings, done)
    click.echo(f"{one.slug} is {'enabled' if one.enabled else 'disabled'}")


@click.command("delete", cls=CliCommand)
@click.argument("slugs", nargs=-1, required=True, metavar="SLUG...")
@note_option
@click.pass_obj
def delete(settings: GlobalOptions, /, *, slugs: tuple[str, ...], note: str) -> None:
    """Delete definitions. Their versions and histories are kept, and what runs goes on."""
    from perdure.operations import on_catalog

    async def done(call: LocalService) -> None:
        for slug in slugs:
            await call(on_catalog.delete, settings.tenant, slug, call.author, note)
            click.echo(f"{slug} is deleted; perdure workflow history {slug} still lists its versions")

    with_service(settings, done)


@click.command("release", cls=CliCommand)
@slug_argument
@note_option
@click.pass_obj
def release(settings: GlobalOptions, /, *, slug: str, note: str) -> None:
    """Take a definition from the watched file that owns it, so that it can be changed by other means."""
    from perdure.operations import on_catalog

    async def done(call: LocalService) -> Any:
        return await call(on_catalog.release, settings.tenant, slug, call.author, note)

    click.echo(f"{with_service(settings, done).slug} is owned by no file")


workflow.section("Look", (ls, show, history, diff))
workflow.section("Publish", (validate, publish, draft, rollback, tag_, untag, enable, disable, release, delete))


@click.command("sync", cls=CliCommand)
@click.argument("directory", metavar="DIR")
@click.option("--dry-run", is_flag=True, help="Show what would happen, with --delete too, and change nothing.")
@click.option("--delete", "deletes", is_flag=True, help="Also delete the definitions that no file has. It needs --expect.")
@click.option("--expect", type=click.IntRange(min=0), metavar="N", help="With --delete: how many definitions are to be deleted.")
@note_option
@json_option
@click.pass_obj
def sync(settings: GlobalOptions, /, *, directory: str, dry_run: bool, deletes: bool, expect: int | None, note: str, as_json: bool) -> None:
    """Bring the catalog to the state of the definitions in DIR: each file becomes the current version of its definition.

    Files of YAML and JSON are read, also in directories below. If one of them is not valid, nothing is changed. Repeated, it changes nothing.
    """
    from perdure.cli import catalog_views, output, terminal_text
    from perdure.core.errors import BadDefinition
    from perdure.operations import on_catalog
    from perdure.service.definition_folder import folder_documents

    if deletes and expect is None and not dry_run:
        raise click.UsageError("--delete needs --expect N, the number of definitions that are to be deleted: --dry-run shows them")
    if not Path(directory).is_dir():
        raise CommandExit(ExitCode.INPUT, f"{directory} is not a directory\nname one with definitions in it")
    documents = folder_documents(Path(directory))

    async def done(call: LocalService) -> Any:
        how = {} if dry_run else {"delete": True, "expect": expect} if deletes else {"keep": True}
        return await call(on_catalog.sync_all, settings.tenant, documents, call.author, note=note, **how)

    try:
        found = with_service(settings, done, creates=True)
    except BadDefinition as error:
        for one in error.findings:
            click.echo(terminal_text.clean(one.message), err=True)
        raise CommandExit(ExitCode.INPUT, f"{directory} was not synced: nothing was changed") from error
    if as_json:
        click.echo(output.indented_json(output.as_data(found)))
        return
    for line in catalog_views.sync_lines(found):
        click.echo(line)
