"""DBOS's widget store on Perdure, on its real server: its addresses, and the inventory when its processes are killed while customers buy."""

import json
import random
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from examples.ports.widget_store import FULL_STOCK, OrderStatus
from perdure import Client
from tests.examples.web.servers import Shop, served

pytestmark = pytest.mark.slow

SERVER = ("uvicorn", "examples.ports.widget_store:web", "--port", "{port}", "--workers", "2")


@pytest.fixture(autouse=True)
def quick_dispatch(monkeypatch: pytest.MonkeyPatch) -> None:
    """The servers of these tests dispatch an order in half a second."""
    monkeypatch.setenv("WIDGET_PROGRESS_EVERY", "50ms")


def inventory(shop: Shop) -> int:
    return int(shop.rows("SELECT inventory FROM products")[0][0])


def orders(shop: Shop) -> dict[int, OrderStatus]:
    return {number: OrderStatus(status) for number, status in shop.rows("SELECT order_id, order_status FROM orders")}


def stock(shop: Shop, pieces: int) -> None:
    with closing(sqlite3.connect(shop.directory / "shop" / "shop.db", timeout=30)) as connection, connection:
        connection.execute("UPDATE products SET inventory = ?", (pieces,))


def test_a_paid_order_takes_a_widget_and_a_declined_one_gives_it_back(tmp_path: Path) -> None:
    with served(Shop(tmp_path, SERVER)) as shop:
        assert shop.post("/checkout/ada") == (200, "ada")
        assert shop.post("/checkout/ada") == (200, "ada"), "the same key is the same checkout"
        assert inventory(shop) == FULL_STOCK - 1
        assert shop.post("/payment_webhook/ada/paid") == (200, "1")
        assert shop.post("/payment_webhook/ada/declined") == (200, "1"), "the first status counts"
        assert json.loads(shop.get("/order/1")[1])["order_status"] in (OrderStatus.PAID, OrderStatus.DISPATCHED)

        assert shop.post("/checkout/bob") == (200, "bob")
        assert shop.post("/payment_webhook/bob/declined") == (200, "2")
        assert json.loads(shop.get("/order/2")[1])["order_status"] == OrderStatus.CANCELLED
        assert json.loads(shop.get("/product")[1])["inventory"] == FULL_STOCK - 1

        stock(shop, 0)
        assert shop.post("/checkout/carl")[0] == 404
        assert orders(shop)[3] is OrderStatus.CANCELLED
        assert inventory(shop) == 0, "what was never reserved is not returned"
        assert shop.post("/payment_webhook/nobody/paid")[0] == 404
        assert shop.get("/order/99")[0] == 404
        assert shop.post("/restock")[0] == 200
        assert inventory(shop) == FULL_STOCK
        shop.wait_until(lambda: orders(shop)[1] is OrderStatus.DISPATCHED, "the order is dispatched")


@pytest.mark.prove
def test_a_checkout_that_waits_for_its_payment_outlives_every_process(tmp_path: Path) -> None:
    with served(Shop(tmp_path, SERVER)) as shop:
        assert shop.post("/checkout/ada") == (200, "ada")
        shop.end()
        shop.begin()
        assert inventory(shop) == FULL_STOCK - 1
        assert shop.post("/payment_webhook/ada/paid") == (200, "1")
        assert shop.post("/crash_application")[0] == 0, "the answer is lost with its process"
        shop.end()
        shop.begin()
        shop.wait_until(lambda: orders(shop) == {1: OrderStatus.DISPATCHED}, "the order is dispatched")
        assert shop.rows("SELECT progress_remaining FROM orders") == [(0,)]
        assert inventory(shop) == FULL_STOCK - 1


def test_a_checkout_that_an_operator_cancels_gives_its_widget_back(tmp_path: Path) -> None:
    with served(Shop(tmp_path, SERVER)) as shop:
        assert shop.post("/checkout/ada") == (200, "ada")
        with Client(f"sqlite:///{tmp_path}/shop/shop.db") as client:
            client.get("ada", "checkout").cancel("the customer has called")
        shop.wait_until(lambda: orders(shop) == {1: OrderStatus.CANCELLED}, "the order is cancelled")
        shop.wait_until(lambda: inventory(shop) == FULL_STOCK, "the widget is returned")


class Customers:
    """Threads that buy, each order with a key of its own; every second payment is declined. A request is repeated until it is answered."""

    def __init__(self, shop: Shop) -> None:
        self.shop, self.paid, self.declined, self.sold_out = shop, set[int](), set[int](), 0
        self._stopped = threading.Event()

    def buy(self, name: str) -> None:
        number = 0
        while not self._stopped.is_set():
            key, number = f"{name}-{number}", number + 1
            if self._answered(f"/checkout/{key}")[0] == 404:
                self.sold_out += 1
            elif number % 2:
                self.declined.add(int(self._answered(f"/payment_webhook/{key}/declined")[1]))
            else:
                self.paid.add(int(self._answered(f"/payment_webhook/{key}/paid")[1]))

    def _answered(self, path: str) -> tuple[int, str]:
        while (answer := self.shop.post(path))[0] not in (200, 404):
            time.sleep(0.02)
        return answer

    @contextmanager
    def at_work(self) -> Iterator[None]:
        threads = [threading.Thread(target=self.buy, args=(f"customer{number}",)) for number in range(3)]
        for one in threads:
            one.start()
        try:
            yield
        finally:
            self._stopped.set()
            for one in threads:
                one.join()


@pytest.mark.prove
def test_killed_while_customers_buy_it_has_sold_each_widget_once(tmp_path: Path) -> None:
    pieces, rng = 25, random.Random(5)
    with served(Shop(tmp_path, SERVER)) as shop:
        stock(shop, pieces)
        customers = Customers(shop)
        with customers.at_work():
            for _ in range(4):
                time.sleep(rng.uniform(0.2, 0.7))
                shop.end()
                shop.begin()
            shop.wait_until(lambda: len(customers.paid) == pieces and customers.sold_out > 3, "all widgets are paid, and no more are sold")
        shop.wait_until(lambda: OrderStatus.PAID not in orders(shop).values(), "all are dispatched")
        found = orders(shop)
        sold = {number for number, status in found.items() if status is OrderStatus.DISPATCHED}
        assert sold == customers.paid and len(sold) == pieces
        assert inventory(shop) == 0
        assert all(found[number] is OrderStatus.CANCELLED for number in customers.declined)
        assert len(found) == len(customers.paid) + len(customers.declined) + customers.sold_out, "each checkout has one order"
