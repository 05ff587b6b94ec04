"""The commands for secrets: `secret set`, `secret ls`, `secret rm`, `secret rotate`, `secret check`. None of them ever shows the value of one."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from perdure.cli import sources
from perdure.cli.exits import Exit, Outcome
from perdure.cli.places import blobs_option
from perdure.cli.root import Command, Group
from perdure.cli.settings import F, Settings, format_option, json_option

if TYPE_CHECKING:
    from perdure.service.secrets.chain import Chain
    from perdure.service.secrets.safe import Safe
    from perdure.stores.vault import Vault

T = TypeVar("T")


def key_option(command: F) -> F:
    """Where the keys are."""
    said = "A file with the keys, id:key, of which the first encrypts; else PERDURE_SECRETS_KEY, or the file of PERDURE_SECRETS_KEY_FILE."
    return click.option("--key-file", metavar="FILE", help=said)(command)


class Kept(NamedTuple):
    """What the commands work with: the vault of the database, the safe that it is with the keys that are here, and where else secrets are looked for."""

    vault: Vault
    safe: Safe
    chain: Chain


@asynccontextmanager
async def _kept(settings: Settings, key_file: str | None, creates: bool = False) -> AsyncIterator[Kept]:
    from perdure.runtime.host import file_of, open_store
    from perdure.service.secrets import keys
    from perdure.service.secrets.chain import providers
    from perdure.service.secrets.safe import Safe
    from perdure.stores.vault import vault_of

    chosen = keys.chosen(key_file)
    if not creates and (file := file_of(settings.url())):
        settings.expect(file)
    store = open_store(settings.db)
    try:
        vault = vault_of(store)
        if vault is None:
            raise Outcome(Exit.STORE, f"{settings.url()} keeps no secrets\nset them in the environment, PERDURE_SECRET_NAME, or in files, PERDURE_SECRETS_PATH")
        yield Kept(vault, Safe(vault, chosen), providers(store, chosen))
    finally:
        await store.close()


def _do(settings: Settings, key_file: str | None, work: Callable[[Kept], Coroutine[Any, Any, T]], creates: bool = False) -> T:
    import asyncio

    async def done() -> T:
        async with _kept(settings, key_file, creates) as kept:
            return await work(kept)

    return asyncio.run(done())


@click.group("secret", cls=Group)
def secret() -> None:
    """Keep secrets that definitions read as @secrets.NAME: encrypted in the database, by PERDURE_SECRETS_KEY."""


@click.command("set", cls=Command)
@click.argument("name")
@key_option
@json_option
@click.pass_obj
def set_(settings: Settings, /, *, name: str, key_file: str | None, as_json: bool) -> None:
    """Keep a secret, in the place of what was kept before. Its value is asked for, or read from standard input; never an argument, which others can see."""
    from perdure.cli import output
    from perdure.core.masks import CHARACTERS_MIN, maskable
    from perdure.service.secrets.names import checked

    _ = checked(name)
    value = _value(name)

    async def keep(kept: Kept) -> tuple[int, bool]:
        return await kept.safe.put(settings.tenant, name, value), await kept.vault.wipe()

    version, wiped = _do(settings, key_file, keep, creates=True)
    click.echo(output.document({"name": name, "version": version}) if as_json else f"{name} is set")
    if not maskable(value):
        click.echo(f"perdure: it has fewer than {CHARACTERS_MIN} characters, so it is not hidden in what steps say; set a longer one", err=True)
    _say_left(wiped)


def _value(name: str) -> str:
    if sys.stdin is not None and sys.stdin.isatty():
        return str(click.prompt(name, hide_input=True, confirmation_prompt=True, err=True))
    try:
        text = sources.read(sources.STDIN).decode()
    except UnicodeDecodeError as error:
        raise Outcome(Exit.INPUT, f"the value of {name} is no text: byte {error.start} is not UTF-8\ngive it in base64, and have the step decode it") from None
    return text.removesuffix("\n").removesuffix("\r") if text.count("\n") == 1 else text


def _say_left(wiped: bool) -> None:
    if not wiped:
        left = "what was there before is in the write-ahead log still, encrypted, since somebody reads it; end what has been reading for long"
        click.echo(f"perdure: {left}", err=True)


@click.command("ls", cls=Command)
@json_option
@format_option()
@click.pass_obj
def ls(settings: Settings, /, *, as_json: bool, format: str) -> None:
    """List the secrets that there are, and where; not their values."""
    from perdure.cli import output, render_secrets

    found = _do(settings, None, lambda kept: render_secrets.listed(kept.safe, kept.chain, settings.tenant))
    output.listing("json" if as_json else format, dict.fromkeys(one.name for one in found), found, lambda: render_secrets.table(found))


@click.command("rm", cls=Command)
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@json_option
@click.pass_obj
def rm(settings: Settings, /, *, names: tuple[str, ...], as_json: bool) -> None:
    """Remove secrets that are kept. Nothing is left of them in the file of the database; backups have what they have."""
    from perdure.cli import output, words

    async def remove(kept: Kept) -> tuple[dict[str, bool], bool]:
        return {name: await kept.safe.remove(settings.tenant, name) for name in names}, await kept.vault.wipe()

    removed, wiped = _do(settings, None, remove)
    if as_json:
        click.echo(output.document([{"name": name, "removed": was} for name, was in removed.items()]))
    for name in (name for name, was in removed.items() if was and not as_json):
        click.echo(f"{words.clean(name)} is removed")
    _say_left(wiped)
    if gone := [words.clean(name) for name, was in removed.items() if not was]:
        raise Outcome(Exit.INPUT, f"there is no secret {', '.join(gone)}\nperdure secret ls lists those that there are")


@click.command("rotate", cls=Command)
@key_option
@json_option
@click.pass_obj
def rotate(settings: Settings, /, *, key_file: str | None, as_json: bool) -> None:
    """Encrypt all secrets, of all tenants, with the first of the keys, while engines go on. The others may then go."""
    from perdure.cli import output, words

    async def done(kept: Kept) -> tuple[int, tuple[str, ...], bool]:
        rotated = await kept.safe.rotate()
        return *rotated, await kept.vault.wipe()

    count, refused, wiped = _do(settings, key_file, done)
    click.echo(output.document({"done": count, "refused": refused}) if as_json else f"{words.count(count, 'secret')} encrypted with the newest key")
    _say_left(wiped)
    if refused:
        left = "\n".join(map(words.clean, refused))
        raise Outcome(Exit.INPUT, f"{words.count(len(refused), 'secret')} can't be read, and stay as they are:\n{left}")


@click.command("check", cls=Command)
@click.argument("file", metavar="FILE.yaml")
@blobs_option
@key_option
@json_option
@format_option()
@click.pass_obj
def check(settings: Settings, /, *, file: str, blobs: str | None, key_file: str | None, as_json: bool, format: str) -> None:
    """Say which secrets a definition reads, and where each would come from here."""
    from perdure.cli import documents, output, render_secrets

    definition = documents.definition(file, and_so="its secrets are not known", blobs=blobs)
    found = _do(settings, key_file, lambda kept: render_secrets.needed(definition, kept.chain, settings.tenant), creates=True)
    output.listing("json" if as_json else format, (one.name for one in found), found, lambda: render_secrets.needs_table(found))
    if missing := [one.name for one in found if one.place is None]:
        raise Outcome(Exit.FINDINGS, f"{len(missing)} of {len(found)} not there\nperdure secret set {missing[0]} sets it")
    if not found and format == "table" and not as_json:
        click.echo(f"perdure: {documents.name(file)} reads no secret", err=True)


secret.section("Commands", (set_, ls, rm, rotate, check))
