"""The commands for secrets: `secret set`, `secret ls`, `secret rm`, `secret rotate`, `secret check`. None of them shows a value."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from perdure.cli.exit_codes import CommandExit, ExitCode
from perdure.cli.root_command import CliCommand, CliGroup
from perdure.cli.shared_options import F, GlobalOptions, blobs_option, format_option, json_option

if TYPE_CHECKING:
    from perdure.service.secrets.secret_resolver import SecretResolver
    from perdure.service.secrets.vault_client import VaultClient
    from perdure.stores.secret_vault import Vault

T = TypeVar("T")


def key_option(command: F) -> F:
    """The file with the keys."""
    said = "A file with the keys, id:key, the first of which encrypts; else PERDURE_SECRETS_KEY, or the file of PERDURE_SECRETS_KEY_FILE."
    return click.option("--key-file", metavar="FILE", help=said)(command)


class SecretAccess(NamedTuple):
    """The vault of the database, a client of it with the keys of this process, and the resolver."""

    vault: Vault
    client: VaultClient
    resolver: SecretResolver


@asynccontextmanager
async def _secret_access(settings: GlobalOptions, key_file: str | None, creates: bool = False) -> AsyncIterator[SecretAccess]:
    from perdure.service.secrets import vault_client
    from perdure.service.secrets.secret_resolver import secret_resolver_for
    from perdure.service.secrets.vault_client import VaultClient
    from perdure.stores.configured_store import database_file, open_store, shown_url
    from perdure.stores.secret_vault import VAULT

    chosen = vault_client.secret_keys(key_file)
    if not creates and (file := database_file(settings.url())):
        settings.expect(file)
    store = open_store(settings.database())
    try:
        vault = store.part(VAULT)
        if vault is None:
            raise CommandExit(
                ExitCode.STORE,
                f"{shown_url(settings.url())} stores no secrets\nset them in the environment, PERDURE_SECRET_NAME, or in files, PERDURE_SECRETS_PATH",
            )
        yield SecretAccess(vault, VaultClient(vault, chosen), secret_resolver_for(store, chosen))
    finally:
        await store.close()


def _run(settings: GlobalOptions, key_file: str | None, work: Callable[[SecretAccess], Coroutine[Any, Any, T]], creates: bool = False) -> T:
    import asyncio

    async def done() -> T:
        async with _secret_access(settings, key_file, creates) as access:
            return await work(access)

    return asyncio.run(done())


@click.group("secret", cls=CliGroup)
def secret() -> None:
    """Store the secrets that definitions read as @secrets.NAME: encrypted in the database with PERDURE_SECRETS_KEY."""


@click.command("set", cls=CliCommand)
@click.argument("name")
@key_option
@json_option
@click.pass_obj
def set_(settings: GlobalOptions, /, *, name: str, key_file: str | None, as_json: bool) -> None:
    """Store a secret in place of its present value. The value is prompted for, or read from standard input; it is never an argument, which others could see."""
    from perdure.cli import output
    from perdure.core.secret_masks import CHARACTERS_MIN, is_maskable
    from perdure.service.secrets.secret_sources import checked_secret_name

    _ = checked_secret_name(name)
    value = _value(name)

    async def keep(access: SecretAccess) -> tuple[int, bool]:
        return await access.client.put(settings.tenant, name, value), await access.vault.wipe()

    version, wiped = _run(settings, key_file, keep, creates=True)
    click.echo(output.indented_json({"name": name, "version": version}) if as_json else f"{name} is set")
    if not is_maskable(value):
        click.echo(f"perdure: it has fewer than {CHARACTERS_MIN} characters, so it is not masked in the outcomes of steps; set a longer one", err=True)
    _warn_not_wiped(wiped)


def _value(name: str) -> str:
    if sys.stdin is not None and sys.stdin.isatty():
        return str(click.prompt(name, hide_input=True, confirmation_prompt=True, err=True))
    try:
        from perdure.cli import definition_files

        text = definition_files.read_source(definition_files.STDIN).decode()
    except UnicodeDecodeError as error:
        raise CommandExit(
            ExitCode.INPUT, f"the value of {name} is not text: byte {error.start} is not UTF-8\nset it in base64, and decode it in the step"
        ) from None
    return text.removesuffix("\n").removesuffix("\r") if text.count("\n") == 1 else text


def _warn_not_wiped(wiped: bool) -> None:
    if not wiped:
        left = "the old value is still in the write-ahead log, encrypted, since a process reads it; end processes that have been reading for long"
        click.echo(f"perdure: {left}", err=True)


@click.command("ls", cls=CliCommand)
@json_option
@format_option()
@click.pass_obj
def ls(settings: GlobalOptions, /, *, as_json: bool, format: str) -> None:
    """List the secrets and their places, without their values."""
    from perdure.cli import output, record_views
    from perdure.service.secrets.secret_list import listed_secrets

    found = _run(settings, None, lambda access: listed_secrets(access.client, access.resolver, settings.tenant))
    output.print_list("json" if as_json else format, dict.fromkeys(one.name for one in found), found, lambda: record_views.secret_table(found))


@click.command("rm", cls=CliCommand)
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@json_option
@click.pass_obj
def rm(settings: GlobalOptions, /, *, names: tuple[str, ...], as_json: bool) -> None:
    """Remove stored secrets. Nothing of them is left in the database file; backups keep what they have."""
    from perdure.cli import output, terminal_text

    async def remove(access: SecretAccess) -> tuple[dict[str, bool], bool]:
        return {name: await access.client.remove(settings.tenant, name) for name in names}, await access.vault.wipe()

    removed, wiped = _run(settings, None, remove)
    if as_json:
        click.echo(output.indented_json([{"name": name, "removed": was} for name, was in removed.items()]))
    for name in (name for name, was in removed.items() if was and not as_json):
        click.echo(f"{terminal_text.clean(name)} is removed")
    _warn_not_wiped(wiped)
    if gone := [terminal_text.clean(name) for name, was in removed.items() if not was]:
        raise CommandExit(ExitCode.INPUT, f"there is no secret {', '.join(gone)}\nperdure secret ls lists the secrets")


@click.command("rotate", cls=CliCommand)
@key_option
@json_option
@click.pass_obj
def rotate(settings: GlobalOptions, /, *, key_file: str | None, as_json: bool) -> None:
    """Encrypt all secrets of all tenants with the first of the keys, while engines work. The other keys can then be dropped."""
    from perdure.cli import output, terminal_text

    async def done(access: SecretAccess) -> tuple[int, tuple[str, ...], bool]:
        rotated = await access.client.rotate()
        return *rotated, await access.vault.wipe()

    count, refused, wiped = _run(settings, key_file, done)
    click.echo(
        output.indented_json({"done": count, "refused": refused}) if as_json else f"{terminal_text.count(count, 'secret')} encrypted with the newest key"
    )
    _warn_not_wiped(wiped)
    if refused:
        left = "\n".join(map(terminal_text.clean, refused))
        raise CommandExit(ExitCode.INPUT, f"{terminal_text.count(len(refused), 'secret')} can't be read, and stay as they are:\n{left}")


@click.command("check", cls=CliCommand)
@click.argument("file", metavar="FILE.yaml")
@blobs_option
@key_option
@json_option
@format_option()
@click.pass_obj
def check(settings: GlobalOptions, /, *, file: str, blobs: str | None, key_file: str | None, as_json: bool, format: str) -> None:
    """Check which secrets a definition reads, and where each would come from here."""
    from perdure.cli import definition_files, output, record_views

    definition = definition_files.load_definition(file, and_so="its secrets are not known", blobs=blobs)
    found = _run(settings, key_file, lambda access: record_views.needed_secrets(definition, access.resolver, settings.tenant), creates=True)
    output.print_list("json" if as_json else format, (one.name for one in found), found, lambda: record_views.needed_secret_table(found))
    if missing := [one.name for one in found if one.place is None]:
        raise CommandExit(ExitCode.FINDINGS, f"{len(missing)} of {len(found)} secrets are missing\nperdure secret set {missing[0]} sets it")
    if not found and format == "table" and not as_json:
        click.echo(f"perdure: {definition_files.source_name(file)} reads no secret", err=True)


secret.section("Commands", (set_, ls, rm, rotate, check))
