"""The shop under FastAPI, Flask and Django, on their real servers: what its addresses answer, killed and reloaded while it serves."""

import json
import os
import random
import shutil
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.examples.web.servers import RELOADERS, ROOT, SERVERS, Shop, served

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", ["fastapi", "django", pytest.param("flask", marks=pytest.mark.prove)])
def test_it_sells_imports_and_asks_the_manager(tmp_path: Path, name: str) -> None:
    with served(Shop(tmp_path, SERVERS[name])) as shop:
        status, body = shop.post("/orders/o1?cents=4900")
        assert (status, json.loads(body)) == (202, {"order": "o1", "created": True})
        assert shop.result("o1") == "paid, row 1"
        status, body = shop.post("/orders/o1?cents=4900")
        assert (status, json.loads(body)["created"]) == (202, False), "the same order again is the first one"
        status, body = shop.post("/orders/o1?cents=1")
        assert status == 409
        assert "another input" in body

        assert shop.post("/orders/large?cents=490000")[0] == 202
        shop.wait_until(lambda: set(shop.links()) == {"yes", "no"}, "the manager gets the links")
        shop.wait_until(lambda: json.loads(shop.get("/orders/large")[1])["status"] == "waiting_approval", "the order waits for the manager")
        assert '<form method="post">' in shop.get(shop.links()["no"])[1]
        assert shop.post(shop.links()["no"] + "?comment=too+dear")[0] == 200
        assert shop.result("large") == "rejected: too dear"
        status, body = shop.post(shop.links()["yes"])
        assert status == 409
        assert "was decided already" in body
        assert shop.post(shop.links()["yes"][:-3] + "abc")[0] == 409

        assert shop.post("/imports/i1", "".join(f"article {number},{number}\n" for number in range(50)))[0] == 202
        assert [line for line in shop.get("/imports/i1/progress")[1].splitlines() if line.startswith("data")] == [
            "data: 20/50",
            "data: 40/50",
            "data: 50/50",
            "data: completed",
        ]
        resumed = shop.get("/imports/i1/progress", **{"Last-Event-ID": "2"})[1]
        assert resumed == "id: 3\ndata: 50/50\n\nevent: end\ndata: completed\n\n"
        assert shop.rows("SELECT count(*), sum(pieces) FROM stock") == [(50, sum(range(50)))]
        assert shop.end(signal.SIGTERM) in (0, -signal.SIGTERM), shop.log.read_text()[-2000:]
        assert "Traceback" not in shop.log.read_text()


class Customers:
    """Threads that place orders until they are stopped, and remember those that were acknowledged."""

    def __init__(self, shop: Shop) -> None:
        self.shop, self.acknowledged, self._stopped = shop, set[str](), threading.Event()

    def order(self, name: str) -> None:
        number = 0
        while not self._stopped.is_set():
            order_id, number = f"{name}-{number}", number + 1
            while not self._stopped.is_set() and self.shop.post(f"/orders/{order_id}?cents=100")[0] != 202:
                time.sleep(0.02)  # the request may have been lost, or only its answer: it is repeated until it is answered
            if not self._stopped.is_set():
                self.acknowledged.add(order_id)

    @contextmanager
    def at_work(self) -> Iterator[None]:
        threads = [threading.Thread(target=self.order, args=(f"customer {number}".replace(" ", ""),)) for number in range(3)]
        for one in threads:
            one.start()
        try:
            yield
        finally:
            self._stopped.set()
            for one in threads:
                one.join()

    def expect_ledger(self) -> None:
        """Each acknowledged order is paid once, and no order twice."""
        for order_id in sorted(self.acknowledged):
            assert self.shop.result(order_id).startswith("paid, row ")
        paid = [order_id for (order_id,) in self.shop.rows("SELECT order_id FROM ledger")]
        assert len(paid) == len(set(paid)) and self.acknowledged <= set(paid)


@pytest.mark.prove
@pytest.mark.parametrize("name", ["fastapi", *(pytest.param(name, marks=pytest.mark.prove) for name in ("flask", "django"))])
def test_with_workers_killed_while_it_serves_each_order_is_paid_once(tmp_path: Path, name: str) -> None:
    with served(Shop(tmp_path, SERVERS[name])) as shop:
        customers, rng = Customers(shop), random.Random(name)
        with customers.at_work():
            for _ in range(3):
                time.sleep(rng.uniform(0.3, 1.0))
                with suppress(ProcessLookupError):
                    os.kill(rng.choice(shop.workers()), signal.SIGKILL)
            time.sleep(1.0)
        customers.expect_ledger()
        assert len(customers.acknowledged) > 20


@pytest.mark.prove
@pytest.mark.parametrize("name", [name if name == "fastapi" else pytest.param(name, marks=pytest.mark.prove) for name in RELOADERS])
def test_reloaded_while_it_serves_each_order_is_paid_once(tmp_path: Path, name: str) -> None:
    code = tmp_path / "code"
    shutil.copytree(ROOT / "examples/web", code / "examples/web", ignore=shutil.ignore_patterns("__pycache__"))
    flows = code / "examples/web/flows.py"
    with served(Shop(tmp_path, RELOADERS[name], code)) as shop:
        customers = Customers(shop)
        with customers.at_work():
            for number in (1, 2):
                time.sleep(0.5)
                flows.write_text(flows.read_text().replace(f'"paid, release {number - 1}, ' if number > 1 else '"paid, ', f'"paid, release {number}, '))
                shop.wait_until(Release(shop, flows, f"paid, release {number}, ").is_served, "the new code serves")
        for order_id in sorted(customers.acknowledged):
            assert shop.result(order_id).startswith("paid, ")
        paid = [order_id for (order_id,) in shop.rows("SELECT order_id FROM ledger")]
        assert len(paid) == len(set(paid)) and customers.acknowledged <= set(paid)


class Release:
    """The results of orders begin with `said` once the server has the new code."""

    def __init__(self, shop: Shop, file: Path, said: str) -> None:
        self.shop, self.file, self.said, self.tries = shop, file, said, 0

    def is_served(self) -> bool:
        self.tries += 1
        if self.tries % 40 == 0:
            self.file.touch()  # a server that was just beginning when the file changed has not noticed it
        order_id = f"{self.said} {self.tries}".replace(" ", "-").replace(",", "")
        if self.shop.post(f"/orders/{order_id}?cents=100")[0] != 202:
            return False
        status, body = self.shop.get(f"/orders/{order_id}?wait=1")
        if status != 200:
            time.sleep(0.1)
            return False
        return str(json.loads(body)["result"]).startswith(self.said)
