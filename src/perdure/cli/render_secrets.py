"""Secrets as tables: those that there are, and those that a definition reads. Values are in none."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from perdure.cli import words
from perdure.cli.render import Cell, Table, cell

if TYPE_CHECKING:
    from perdure.definition import Definition
    from perdure.service.secrets.chain import Chain
    from perdure.service.secrets.safe import Safe


class Listed(msgspec.Struct, frozen=True):
    """A secret and where it is: environment, file or store; of one that is stored, how often it was written, when last, and with which key."""

    name: str
    place: str
    version: int | None = None
    set_at_s: float | None = None
    key_id: str | None = None


class Needed(msgspec.Struct, frozen=True):
    """A secret that a definition reads: which steps do, and where it would be found (None: nowhere), or why it can't be."""

    name: str
    steps: tuple[str, ...]
    place: str | None
    trouble: str = ""


async def listed(safe: Safe, chain: Chain, tenant: str) -> list[Listed]:
    """What there is for a tenant, by name; of one name, the one that is meant first."""
    stored = [Listed(one.name, "store", one.version, one.set_at_s, one.key_id) for one in await safe.listed(tenant)]
    return sorted([*(Listed(name, place) for name, place in chain.names(tenant)), *stored], key=lambda one: one.name)


async def needed(definition: Definition, chain: Chain, tenant: str) -> list[Needed]:
    """What a definition reads, by name."""
    from perdure.service.secrets.needs import needed as names

    reads = names(definition.ir, definition.read.canonical.get("triggers"))
    return [await asyncio.to_thread(_needed, chain, tenant, name, tuple(steps)) for name, steps in sorted(reads.items())]


def _needed(chain: Chain, tenant: str, name: str, steps: tuple[str, ...]) -> Needed:
    from perdure.core.errors import SealedSecret

    try:
        return Needed(name, steps, next(iter(chain.places(tenant, name)), None))
    except SealedSecret as sealed:
        return Needed(name, steps, None, sealed.why)


def table(found: Sequence[Listed]) -> Table:
    """A row for each."""
    return Table(("NAME", "WHERE", "KEY", "SET"), tuple(_listed(one) for one in found))


def needs_table(found: Sequence[Needed]) -> Table:
    """A row for each."""
    return Table(("NAME", "WHERE", "STEPS"), tuple(_row(one) for one in found))


def _listed(one: Listed) -> tuple[Cell, ...]:
    return cell(one.name, "strong"), Cell(one.place), cell(one.key_id or ""), Cell("" if one.set_at_s is None else words.when(one.set_at_s))


def _row(one: Needed) -> tuple[Cell, ...]:
    where = Cell(one.place) if one.place is not None else cell(f"sealed: {one.trouble}" if one.trouble else "missing", "bad")
    return cell(one.name, "strong"), where, cell(", ".join(one.steps))
