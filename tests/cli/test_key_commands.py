"""The commands for keys: the first admin is made on the machine of the database; a key is printed once, and listed without its secret."""

import asyncio
import json
import re

import pytest

from perdure.cli import key_commands
from perdure.cli.record_views import key_table
from perdure.core.errors import Unauthenticated
from perdure.service.access_keys import KeyDetails, KeyRequest, KeyVerifier, create_key, read_key
from perdure.service.audit import AuditFilter, AuditPage, list_entries
from perdure.service.callers import ROLES, Caller
from perdure.service.service_clock import ServiceClock
from perdure.stores.memory import MemoryStore
from perdure.stores.sqlite.store import SqliteStore
from perdure.testing.conformance import Clock
from tests.cli.shell import Said, Shell, agrees, steady, transcript

KEY = re.compile(r"prd_([0-9A-Za-z]{8})_[0-9A-Za-z_-]{43}")


def caller(shell: Shell, key: str) -> Caller:
    """Who has a key, as a service on the same database sees it."""

    async def found() -> Caller:
        store = SqliteStore(shell.directory / "perdure.db")
        try:
            return await KeyVerifier(store, ServiceClock(store)).caller(key)
        finally:
            await store.close()

    return asyncio.run(found())


def entries(shell: Shell, tenant: str) -> AuditPage:
    async def found() -> AuditPage:
        store = SqliteStore(shell.directory / "perdure.db")
        try:
            return await list_entries(store, tenant, AuditFilter())
        finally:
            await store.close()

    return asyncio.run(found())


def test_the_roles_of_the_command_are_those_of_callers() -> None:
    assert key_commands.ROLES == ROLES


def test_the_first_admin_is_made_on_the_machine_of_the_database(shell: Shell) -> None:
    said = shell.run("keys create root --admin --tenant acme")
    assert said.code == 0 and KEY.fullmatch(said.out.strip())  # nothing but the key, so that it can be piped
    admin = caller(shell, said.out.strip())
    assert admin.tenant == "acme" and all(admin.may(role) for role in ROLES)


def test_a_key_is_made_listed_rotated_and_revoked(shell: Shell) -> None:
    made = shell.run("keys create ci --role viewer --role operator --queue mails --expires 90d")
    first, id = made.out.strip(), KEY.fullmatch(made.out.strip())[1]  # type: ignore[index]  # it matches
    assert caller(shell, first).queues == ("mails",) and sorted(caller(shell, first).roles) == ["operator", "viewer"]
    rotated = shell.run(f"keys rotate {id}")
    assert caller(shell, rotated.out.strip()) != caller(shell, first)
    last = shell.run(f"keys rotate {id} --overlap 0 --json")
    for old in (first, rotated.out.strip()):
        with pytest.raises(Unauthenticated):
            caller(shell, old)
    assert caller(shell, json.loads(last.out)["text"]).subject == f"key:{id}"
    listed = shell.run("keys ls --json")
    assert [(one["id"], one["secrets"], one["created_by"]) for one in json.loads(listed.out)] == [(id, 1, "local")]
    revoked = shell.run(f"keys revoke {id}")
    with pytest.raises(Unauthenticated, match="was revoked"):
        caller(shell, json.loads(last.out)["text"])
    assert revoked.out == f"{id} (ci) is revoked\n"
    secrets = [text.strip().split("_", 2)[2] for text in (made.out, rotated.out, json.loads(last.out)["text"])]
    shown = "".join(one.out + one.err for one in (listed, revoked, shell.run("keys ls"), shell.run("keys revoke --json " + id)))
    written = b"".join(file.read_bytes() for file in shell.directory.iterdir() if file.is_file())
    assert not [one for one in secrets if one in shown or one.encode() in written]


@pytest.mark.parametrize("ahead_s", [-7_200, 7_200])
def test_a_key_is_shown_as_expired_if_the_service_says_so_wherever_the_clock_of_the_reader_is(ahead_s: float) -> None:
    async def listed() -> tuple[KeyDetails, KeyDetails]:
        clock = Clock()
        store = MemoryStore(clock)
        made = await create_key(store, "acme", KeyRequest(name="ci", roles=("viewer",), valid_s=3_600), "local")
        clock.advance(3_600)
        return made.key, await read_key(store, "acme", made.key.id)

    valid, expired = asyncio.run(listed())
    shown = [row[-1].text for row in key_table([valid, expired], valid.created_at_s + ahead_s).rows]
    assert [text.startswith("expired") for text in shown] == [False, True]


def test_what_is_done_to_keys_is_audited(shell: Shell) -> None:
    id = KEY.fullmatch(shell.run("keys create ci --admin --tenant acme").out.strip())[1]  # type: ignore[index]  # it matches
    shell.run(f"keys revoke {id} --tenant acme")
    found = [one.entry for one in entries(shell, "acme").items]
    assert [(one.subject, one.operation, one.targets[0].key) for one in found] == [("local", "access.revoke_key", id), ("local", "access.create_key", id)]


def test_a_tenant_has_keys_of_its_own(shell: Shell) -> None:
    id = KEY.fullmatch(shell.run("keys create ci --admin").out.strip())[1]  # type: ignore[index]  # it matches
    assert shell.run("keys ls -o ids --tenant acme").out == "" and shell.run("keys ls -o ids").out == f"{id}\n"
    said = shell.run(f"keys revoke {id} --tenant acme")
    assert (said.code, said.err) == (10, f"perdure: there is no key '{id}' in the tenant acme. perdure keys ls lists the keys\n")


def test_without_a_database_none_is_made_by_looking(shell: Shell) -> None:
    (shell.directory / "perdure.db").unlink()
    for command in ("keys ls", "keys revoke x", "keys rotate x"):
        assert shell.run(command).code == 50
    assert not (shell.directory / "perdure.db").exists() and shell.run("keys create a --admin").code == 0


SAID = {
    "keys_none": ("keys ls",),
    "keys_create": ("keys create ci --role operator --role viewer --queue mails --expires 90d",),
    "keys_create_json": ("keys create root --admin --json",),
    "keys_ls": ("keys create ci --role viewer", "keys ls"),
    "keys_ls_json": ("keys create ci --admin --expires 12h", "keys ls --json"),
    "keys_rotate": ("keys create ci --role viewer", "keys rotate ID"),
    "keys_revoke": ("keys create ci --role viewer", "keys revoke ID"),
    "keys_ls_revoked": ("keys create ci --role viewer", "keys revoke ID", "keys ls"),
    "keys_rotate_revoked": ("keys create ci --role viewer", "keys revoke ID", "keys rotate ID"),
    "keys_revoke_unknown": ("keys revoke nope",),
    "keys_create_without_role": ("keys create ci",),
    "keys_create_unknown_role": ("keys create ci --role root",),
    "keys_create_bad_time": ("keys create ci --admin --expires soon",),
}


@pytest.mark.parametrize("name", SAID)
def test_what_a_command_says(shell: Shell, name: str) -> None:
    id, said = "", Said(0, "", "")
    for command in SAID[name]:
        said = shell.run(command.replace("ID", id))
        if found := KEY.search(said.out):
            id = found[1]
    text = KEY.sub("prd_ID_SECRET", transcript(SAID[name][-1], said))
    text = text.replace(id, "ID") if id else text
    agrees(name, steady(re.sub(r'(?<=_at_s": )\d+\.\d+', "SECONDS", text), shell.directory))
