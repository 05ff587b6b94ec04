"""Claims about webhooks of servers that are killed under load: of each delivery that was acknowledged there is one execution, however often it was sent."""

import asyncio
import random
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx2
import pytest

from perdure.service.triggers.trigger_records import Verification
from perdure.service.triggers.webhook_signatures import Signing, signed_headers
from tests.api.killed_servers import GIVE_UP_S, DevProcess, Started, is_intact, storm
from tests.stores.servers import postgres

pytestmark = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds the children of a process in /proc")

SECRET = "a secret of the senders"
HOW = Verification(scheme="github", secrets=("HOOK",))
TRIGGER: dict[str, Any] = {
    "name": "marks",
    "config": {"type": "webhook", "path": "marks", "verify": {"scheme": "github", "secrets": ["HOOK"]}},
    "workflowId": "marked",
    "variableMapping": {"name": "$.name"},
}


class Senders:
    """Senders that repeat each delivery until a server acknowledges it. They set the trigger up, once."""

    def __init__(self) -> None:
        self._lock, self._is_set_up = asyncio.Lock(), False

    async def send(self, servers: list[DevProcess], key: str, draw: random.Random) -> Started:
        """Sends a delivery to any server, again until one acknowledges it."""
        body = f'{{"name": "{key}"}}'.encode()
        headers = signed_headers(HOW, SECRET, Signing(body, 0, "")) | {"X-GitHub-Delivery": key, "Content-Type": "application/json"}
        asked, until_s = 0, time.monotonic() + GIVE_UP_S
        async with httpx2.AsyncClient(timeout=10) as client:
            while time.monotonic() < until_s:
                place = draw.choice(servers).server
                with suppress(httpx2.TransportError):
                    if place is not None and await self._set_up(client, place):
                        asked += 1
                        answer = await client.post(f"{place.url}/webhooks/marks", content=body, headers=headers)
                        if answer.status_code in (200, 202):
                            return Started(key, answer.json()["workflow"], answer.json()["executionId"], asked)
                        assert answer.status_code == 503, answer.text
                await asyncio.sleep(draw.uniform(0.01, 0.2))
        raise AssertionError(f"{key} was not acknowledged within {GIVE_UP_S:g} s")

    async def _set_up(self, client: httpx2.AsyncClient, place: Any) -> bool:
        async with self._lock:
            if not self._is_set_up:
                answer = await client.post(f"{place.url}/api/triggers", json=TRIGGER, headers={"authorization": f"Bearer {place.token}"})
                self._is_set_up = answer.status_code in (200, 201) or answer.json()["code"] == "already_exists"
            return self._is_set_up


@pytest.fixture(autouse=True)
def _secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_SECRET_HOOK", SECRET)


@pytest.mark.prove
@pytest.mark.parametrize(("servers", "deliveries", "kills"), [(1, 60, 2), (2, 2_000, 20)])
async def test_a_delivery_that_is_repeated_takes_effect_once_though_its_server_is_killed(tmp_path: Path, servers: int, deliveries: int, kills: int) -> None:
    senders = Senders()
    outcome = await storm(tmp_path, f"sqlite:///{tmp_path}/hooks.db", servers=servers, starts=deliveries, kills=kills, seed=servers, start=senders.send)
    assert outcome.kills == kills and outcome.asked > deliveries
    assert is_intact(tmp_path / "hooks.db")


@pytest.mark.real
async def test_of_servers_on_postgres_that_are_killed_each_delivery_takes_effect_once(tmp_path: Path) -> None:
    with postgres() as server:
        outcome = await storm(tmp_path, server.url, servers=2, starts=300, kills=4, seed=3, start=Senders().send)
    assert outcome.kills == 4 and outcome.asked > 300
