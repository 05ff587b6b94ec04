"""Claims about the connection between Perdure and Postgres: cut at any request of an execution's life, nothing is lost, and nothing is done twice."""

from collections.abc import Iterator
from typing import get_args

import pytest

from perdure.core.paths import Key
from perdure.stores.postgres.store import PostgresStore
from perdure.testing.crash_points import evenly_spread
from tests.stores.postgres.fault_rows import UNHARMED, Verdict, in_prove, in_real, write_row
from tests.stores.postgres.lives import client_on, engine_on, examine, lead, ledger, result_of_life
from tests.stores.postgres_proxy import Choose, Fate, Proxy, proxied
from tests.stores.servers import PostgresServer, postgres

CUTS: tuple[Fate, ...] = tuple(fate for fate in get_args(Fate) if fate != "late")
SOME, MARGIN = 12, 5
"""So many of the requests are cut in each run, and so many more than there were undisturbed are tried in the proof: some worlds need a few more."""


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with postgres() as server:
        yield server


async def lived(server: PostgresServer, proxy: Proxy, id: str, number: int) -> Verdict:
    """What came of a life whose client and engine are behind the proxy."""
    ledger.clear()
    async with engine_on(PostgresStore(proxy.url)), client_on(proxy.url) as client:
        result = await lead(client, id, number)
    assert result == result_of_life(number)
    return await examine(server.url, [Key("default", "life", id)])


async def undisturbed_requests(server: PostgresServer) -> int:
    """How many requests there are in an undisturbed life."""
    for id in ("warm", "undisturbed"):
        async with proxied(server.url) as proxy:
            assert await lived(server, proxy, id, 1) == UNHARMED
    return proxy.requests


def meeting(fate: Fate, number: int) -> Choose:
    """The fate of the request of this number, and of no other."""
    return lambda request: fate if request.number == number else None


@pytest.mark.parametrize("most", [in_real(SOME), in_prove(None)])
@pytest.mark.parametrize("fate", CUTS)
async def test_cut_at_any_request_of_its_life_an_execution_ends_as_if_undisturbed(server: PostgresServer, fate: Fate, most: int | None) -> None:
    happened, verdict = 0, UNHARMED
    for number in evenly_spread(range(1, await undisturbed_requests(server) + MARGIN), most):
        async with proxied(server.url, choose=meeting(fate, number)) as proxy:
            verdict += await lived(server, proxy, f"{fate} {number} of {most}", number)
            happened += len(proxy.met)
    write_row(f"connection cut: request {fate}" if fate != "answer" else "connection cut: answer lost", happened, verdict, "an execution each")
    assert happened and verdict == UNHARMED
