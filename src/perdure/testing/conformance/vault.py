"""Vaults: a secret is kept if nobody else has written it meanwhile, is there for its tenant alone, and is gone once it is removed."""

import pytest

from perdure.stores.vault import Sealed, Vault, vault_of
from perdure.testing.conformance.world import NAMES, World

RAW = bytes(range(256))


def vault(world: World) -> Vault:
    """The vault of the store; a store need not have one."""
    found = vault_of(world.store)
    if found is None:
        pytest.skip("this store keeps no secrets")
    return found


class Vaults:
    """See the module."""

    async def test_a_secret_is_kept_as_it_was_given_and_when(self, world: World) -> None:
        kept = vault(world)
        assert await kept.read() == []
        assert await kept.keep("acme", "TOKEN", 1, RAW)
        world.clock.advance(10)
        assert await kept.keep("acme", "A", 1, b"")
        at_s = world.clock.now_s
        assert await kept.read("acme") == [Sealed("acme", "A", 1, b"", at_s), Sealed("acme", "TOKEN", 1, RAW, at_s - 10)]
        assert await kept.read("acme", "TOKEN") == [Sealed("acme", "TOKEN", 1, RAW, at_s - 10)]

    async def test_who_has_not_seen_the_last_version_writes_nothing(self, world: World) -> None:
        kept = vault(world)
        for version in (0, 2, 3):
            assert not await kept.keep("acme", "TOKEN", version, b"never")
        assert await kept.keep("acme", "TOKEN", 1, b"one") and not await kept.keep("acme", "TOKEN", 1, b"late")
        assert await kept.keep("acme", "TOKEN", 2, b"two")
        for version in (1, 2, 4):
            assert not await kept.keep("acme", "TOKEN", version, b"late")
        assert [(one.version, one.sealed) for one in await kept.read()] == [(2, b"two")]

    async def test_what_is_removed_is_gone_and_may_be_set_anew(self, world: World) -> None:
        kept = vault(world)
        assert not await kept.drop("acme", "TOKEN")
        assert await kept.keep("acme", "TOKEN", 1, b"one") and await kept.keep("acme", "TOKEN", 2, b"two")
        assert await kept.drop("acme", "TOKEN") and not await kept.drop("acme", "TOKEN")
        assert await kept.read() == [] and not await kept.keep("acme", "TOKEN", 3, b"three")
        assert await kept.keep("acme", "TOKEN", 1, b"anew")

    async def test_tenants_and_names_are_told_apart_however_they_are_called(self, world: World) -> None:
        kept, names = vault(world), NAMES
        for name in names:
            assert await kept.keep("acme", name, 1, b"of acme") and await kept.keep(name, "TOKEN", 1, name.encode())
        assert [one.name for one in await kept.read("acme")] == sorted(names)
        for name in names:
            assert [(one.tenant, one.sealed) for one in await kept.read(name)] == [(name, name.encode())]
            assert [one.sealed for one in await kept.read("acme", name)] == [b"of acme"]
            assert await kept.drop(name, "TOKEN")
        assert [one.tenant for one in await kept.read()] == ["acme"] * len(names)
