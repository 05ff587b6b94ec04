"""Claims about what the command line suggests of a recording, and accepts."""

import asyncio
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from perdure import AsyncClient
from perdure.cli.command_list import root
from perdure.runtime.local_engine import local_engine
from tools.sample_recording import RECORDING, REFUND, record_refund


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A database with a recording."""
    url = f"sqlite:///{tmp_path}/shop.db"

    async def record() -> None:
        async with local_engine([RECORDING.code], url), AsyncClient(url) as client:
            await record_refund(client)

    asyncio.run(record())
    return url


def said(url: str, *words: str) -> Result:
    return CliRunner().invoke(root, ["recording", *words, "--db", url], prog_name="perdure")


def test_suggestions_are_shown_and_accepted_by_their_keys(url: str) -> None:
    shown = said(url, "suggest", REFUND)
    assert shown.exit_code == 0, shown.output
    assert 'refund_1/order  likely, 100%  "o-5521" → @list_orders_1.orders[0].id' in shown.output
    listed = json.loads(said(url, "suggest", REFUND, "--json").output)
    assert "refund_1/order" in [one["key"] for one in listed["references"]]
    one = said(url, "save", REFUND, "refund", "--accept", "refund_1/order", "--print").output
    assert '"@list_orders_1.orders[0].id", cents: 6490' in one
    likely = said(url, "save", REFUND, "refund", "--accept", "likely", "--print").output
    assert "@{refund_1.refund} for ticket @{input.ticket}" in likely and "6490" not in likely
    assert said(url, "save", REFUND, "refund", "--accept", "likely").output.startswith("refund is at version 1.0.0")


def test_printing_saves_nothing_so_it_takes_nothing_that_is_for_saving(url: str) -> None:
    for more in (["--draft"], ["--note", "as recorded"]):
        refused = said(url, "save", REFUND, "refund", "--print", *more)
        assert refused.exit_code == 20 and "leave --draft and --note out" in refused.stderr


def test_a_key_that_is_no_suggestion_is_refused(url: str) -> None:
    refused = said(url, "save", REFUND, "refund", "--accept", "refund_1/nothing")
    assert refused.exit_code != 0 and "refund_1/order" in refused.output + refused.stderr + str(refused.exception)
