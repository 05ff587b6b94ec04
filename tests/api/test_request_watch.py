"""Claims about the watch of a long request while the database does not answer: it ends with its client, and with its process, all the same."""

import asyncio

import pytest

from perdure.api import request_watch
from perdure.core.errors import StoreUnavailable


class _Open:
    """A request whose client leaves when told to."""

    def __init__(self) -> None:
        self.left = asyncio.Event()

    async def disconnected(self) -> None:
        """Waits until the client has left."""
        _ = await self.left.wait()


@pytest.mark.parametrize("ends_by", ["client", "process"])
async def test_a_long_request_ends_while_the_check_of_its_key_gets_no_answer(monkeypatch: pytest.MonkeyPatch, ends_by: str) -> None:
    monkeypatch.setattr(request_watch, "RECHECK_S", 0.0)
    request, asked, stopping = _Open(), asyncio.Event(), asyncio.get_running_loop().create_future()

    async def unanswered() -> None:
        asked.set()
        _ = await asyncio.Event().wait()

    watching = asyncio.create_task(request_watch.until_over(request, unanswered, stopping))  # type: ignore[arg-type]  # all that is used of a request
    _ = await asked.wait()
    if ends_by == "client":
        request.left.set()
    else:
        stopping.set_result(None)
    found = await asyncio.wait_for(watching, 5)
    assert found is None if ends_by == "client" else isinstance(found, StoreUnavailable)
