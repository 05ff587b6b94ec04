"""Claims about the connection between Perdure and Postgres: cut at any request of an execution's life, nothing is lost, and nothing is done twice."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import get_args

import asyncpg  # type: ignore[import-untyped]  # it has no types
import pytest

from perdure.core.envelopes import NewExecution, OutgoingMessage
from perdure.core.errors import StoreUnavailable
from perdure.core.paths import Key
from perdure.stores.postgres.server_errors import store_error, was_rolled_back
from perdure.stores.postgres.store import PostgresStore
from perdure.stores.protocol import Claim, Claimed, Head, HeadFilter, NothingClaimed, Post
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


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[PostgresStore]:
    """A store of its own."""
    store = PostgresStore(url)
    yield store
    await store.close()


async def claimed_behind(proxy: Proxy, id: str) -> tuple[Claimed | StoreUnavailable, Head]:
    """What comes of a claim of one execution by a store behind the proxy, and the head that another store then finds."""
    key, program = Key("default", id.replace(" ", "-"), "x"), f"{id}@1"
    async with opened(proxy.url) as store:
        await store.commit([Post(messages=(OutgoingMessage(key, f"start:{key}", b"start", opens=NewExecution(program, key)),))])
        moment = await store.renew(id, 60.0)
        await store.claim(Claim(holder=id, epoch=moment.epoch))  # the statement is prepared
        proxy.choose = lambda _: FATES.get(id)
        try:
            came: Claimed | StoreUnavailable = await store.claim(Claim(holder=id, epoch=moment.epoch, programs=frozenset((program,))))
        except StoreUnavailable as error:
            came = error
        proxy.choose = lambda _: None
        (head,) = await store.heads(HeadFilter(keys=(key,)))
        return came, head


FATES: dict[str, Fate] = {"request lost": "lost", "request torn": "torn", "answer lost": "answer"}


@pytest.mark.real
@pytest.mark.parametrize("id", [*FATES, "undisturbed"])
async def test_a_claim_whose_connection_is_cut_is_in_doubt(server: PostgresServer, id: str) -> None:
    async with proxied(server.url) as proxy:
        came, head = await claimed_behind(proxy, id)
    assert isinstance(came, Claimed) == (id == "undisturbed") and not isinstance(came, NothingClaimed)
    assert head.holder == (id if id in ("answer lost", "undisturbed") else None)


@pytest.mark.real
async def test_a_claim_that_finds_no_connection_was_surely_not_made(server: PostgresServer) -> None:
    async with proxied(server.url) as proxy, opened(proxy.url) as store:
        moment = await store.renew("me", 60.0)
        url = proxy.url
    async with opened(url) as gone:
        with pytest.raises(NothingClaimed, match="check that it runs"):
            await gone.claim(Claim(holder="me", epoch=moment.epoch, programs=frozenset(("it@1",))))


@pytest.mark.parametrize(
    ("sqlstate", "is_known"),
    [("57014", True), ("40P01", True), ("25006", True), ("53100", True), ("57P01", False), ("57P02", False), ("08006", False), ("", False)],
)
def test_a_statement_that_the_server_refuses_has_not_been_carried_out(sqlstate: str, is_known: bool) -> None:
    said = asyncpg.PostgresError.new({"C": sqlstate, "M": "no"}) if sqlstate else ConnectionResetError("no")
    error = store_error(said)
    error.__cause__ = said
    assert was_rolled_back(error) == is_known
