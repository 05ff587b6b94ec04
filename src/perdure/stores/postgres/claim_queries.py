"""A claim in Postgres: one call of the function `claim_1` (see `migrations/0004_claims.sql`), in a transaction of its own."""

from collections.abc import Awaitable, Callable, Iterable
from operator import itemgetter
from typing import Any

from perdure.stores.postgres.statements import SQL
from perdure.stores.postgres.store_rows import address_bytes, escape_nul, head_of, message_of
from perdure.stores.protocol import ORPHANS_FREED_MIN, Claim, Claimed, ClaimedExecution

Fetch = Callable[..., Awaitable[list[Any]]]

HEADER, EXECUTION, MESSAGE, TASK, PROGRAM = range(5)
"""The kinds of rows that the function returns."""

HEAD_COLUMNS, MESSAGE_COLUMNS, PROGRAM_COLUMN = slice(8, 24), slice(24, 32), 11
"""Where the columns of a head, those of a message and the name of a program are in them."""


class KnownPrograms:
    """The programs that need capabilities, as a store has read them, and the fingerprint of their set by which the database says that it has others."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.fingerprint = 0


async def claim(fetch: Fetch, claim: Claim, now_s: float | None, known: KnownPrograms) -> tuple[Claimed, bool]:
    """See `Store.claim`. Returns also whether something of dead holders became free.

    One call suffices unless programs that need capabilities are new in the database: then `known` is read and the call is repeated.
    """
    while True:
        rows = await fetch(SQL.claim, now_s, *claim_arguments(claim, known))
        kinds: list[list[Any]] = [[], [], [], [], []]
        for row in rows:
            kinds[row[0]].append(row)
        (header,) = kinds[HEADER]
        _, its_now_s, next_at_s, freed, fingerprint, executions, tasks, *_ = header
        if not claim.toolboxes or fingerprint in (None, known.fingerprint):
            return _claimed(its_now_s, next_at_s, executions or (), tasks or (), kinds), freed
        known.names, known.fingerprint = [row[PROGRAM_COLUMN] for row in kinds[PROGRAM]], fingerprint


def claim_arguments(claim: Claim, known: KnownPrograms) -> tuple[object, ...]:
    """Returns the arguments of the function behind its time. Names within arrays are escaped here."""
    named = claim.of(known.names)
    roots = None if claim.roots is None else [*map(address_bytes, claim.roots)]
    tenants = None if claim.tenants is None else [*map(escape_nul, sorted(claim.tenants))]
    names = ([*map(escape_nul, sorted(named.programs))], roots, tenants, [*map(escape_nul, sorted(named.queues))])
    return (claim.holder, claim.epoch, *names, claim.limit, max(claim.limit, ORPHANS_FREED_MIN), known.fingerprint if claim.toolboxes else None)


def _claimed(now_s: float, next_at_s: float | None, executions: Iterable[int], tasks: Iterable[int], kinds: list[list[Any]]) -> Claimed:
    heads = {row[7]: head_of(tuple(row)[HEAD_COLUMNS]) for row in kinds[EXECUTION]}
    messages: dict[int, list[Any]] = {number: [] for number in heads}
    for row in sorted(kinds[MESSAGE], key=itemgetter(MESSAGE_COLUMNS.start)):
        messages[row[7]].append(message_of(tuple(row)[MESSAGE_COLUMNS]))
    leased = {row[MESSAGE_COLUMNS.start]: message_of(tuple(row)[MESSAGE_COLUMNS]) for row in kinds[TASK]}
    handed = tuple(ClaimedExecution(heads[number], tuple(messages[number])) for number in executions)
    return Claimed(now_s, handed, tuple(leased[number] for number in tasks), next_at_s)
