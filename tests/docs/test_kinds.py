"""The pages of kinds say what the kinds declare, and each example comes to what its page states."""

import json
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from perdure import Allowed, Definition, Deployment
from perdure.fake_llm import load, models, serving_aside
from perdure.testing import World
from tests.docs.kinds import DIRECTORY, GIVES, page, pages, shown

SHOWN = shown()
PAYMENT: dict[str, Any] = {"find_payments": lambda: [{"order": "o1", "times": 2}], "charge": lambda cents: {"id": "ch_1"}, "refund": lambda charge: None}
RECEIPT = {"perdure": 1, "name": "receipt", "input": {"pieces": {}}, "steps": [{"id": "it", "return": "receipt for @{input.pieces}"}]}
OFFERS = [{"name": name, "price": price} for name, price in (("salt", 10), ("gum", 1), ("tea", 30), ("rice", 20), ("flour", 10))]
SAID = """
- {when: {contains: crashes}, answer: {json: {label: bug, confidence: 0.9}}, usage: {input: 40, output: 12}}
- {when: {contains: charged twice}, answer: {calls: [{name: find_payments, args: {}}]}}
- {when: {tool_result: o1}, answer: {json: {next: [billing], reasoning: It was charged twice.}}}
- {when: {contains: What is my name}, answer: {text: Your name is Ada.}}
- {answer: {text: Hello Ada.}}
"""


PETS = {
    "openapi": "3.1.0",
    "servers": [{"url": "/"}],
    "paths": {
        "/pets": {"get": {"operationId": "listPets", "parameters": [{"name": name, "in": "query", "schema": {}} for name in ("kind", "limit")]}},
        "/pets/{id}/adoptions": {
            "parameters": [{"name": "id", "in": "path", "required": True, "schema": {"type": "integer"}}],
            "post": {"requestBody": {"content": {"application/json": {}}}},
        },
    },
}


class ExampleServer(BaseHTTPRequestHandler):
    """What the examples of `http` and `openapi` ask."""

    def do_GET(self) -> None:
        said: dict[str, Any] = {"/openapi.json": PETS, "/pets?kind=cat&limit=1": [{"id": 7, "name": "Tom"}]}
        self._say(said.get(self.path, {"id": "o1"}))

    def do_POST(self) -> None:
        given = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/pets/7/adoptions":
            self._say({"id": "a-1"} if given == {"by": "ada"} else {})
            return
        ok = given == {"order": "o1", "cents": 500} and self.headers["Authorization"] == "Bearer shop-token" and self.headers["Idempotency-Key"]
        self._say({"id": "ch_1"} if ok else {})

    def _say(self, data: Any) -> None:
        raw = json.dumps(data).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture
def shop() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), ExampleServer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("name", SHOWN)
def test_a_page_says_what_the_kind_declares(name: str) -> None:
    assert (DIRECTORY / f"{name}.md").read_text(encoding="utf-8") == page(SHOWN[name])


def test_there_is_a_page_of_each_kind_and_no_other() -> None:
    assert {file.name for file in DIRECTORY.glob("*.md")} == set(pages())


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in SHOWN if name not in ("http", "openapi", "sql", "task")])
def test_an_example_comes_to_what_its_page_states(name: str, tmp_path: Path) -> None:
    (tmp_path / "script.yaml").write_text(SAID)
    (tmp_path / "files").mkdir()
    with serving_aside(load(tmp_path / "script.yaml")) as url:
        known: dict[str, Any] = models(url)
        known["default"] = known["small"]
        deployment = Deployment(allowed=Allowed(bash=True, file=tmp_path / "files"), work=tmp_path / "work", models=known)
        made = Definition.of(SHOWN[name].example, tools=PAYMENT, calls=[Definition.of(RECEIPT)], deployment=deployment)
        given = {"offers": OFFERS} if name == "pipeline" else {}
        assert made.with_(db=f"sqlite:///{tmp_path}/p.db").run(**given) == GIVES[name]


@pytest.mark.slow
def test_the_example_of_requests_comes_to_what_its_page_states(shop: str, tmp_path: Path) -> None:
    deployment = Deployment(allowed=Allowed(http=("127.0.0.1",)))
    made = Definition.of(SHOWN["http"].example, deployment=deployment, secrets={"SHOP_TOKEN": "shop-token"})
    assert made.with_(db=f"sqlite:///{tmp_path}/p.db").run(order="o1", cents=500, shop=shop) == GIVES["http"]


@pytest.mark.slow
def test_the_example_of_operations_comes_to_what_its_page_states(shop: str, tmp_path: Path) -> None:
    made = Definition.of(SHOWN["openapi"].example, deployment=Deployment(allowed=Allowed(http=("127.0.0.1",))))
    assert made.with_(db=f"sqlite:///{tmp_path}/p.db").run(kind="cat", api=shop) == GIVES["openapi"]


@pytest.mark.slow
def test_the_example_of_statements_comes_to_what_its_page_states(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "shop.db")) as connection:
        connection.executescript(
            "CREATE TABLE accounts (id INTEGER PRIMARY KEY, name TEXT, cents INTEGER); CREATE TABLE outbox (id TEXT PRIMARY KEY, body TEXT);"
            "INSERT INTO accounts VALUES (1, 'ada', 1000);"
        )
    made = Definition.of(SHOWN["sql"].example, connections={"shop": f"sqlite:///{tmp_path}/shop.db"})
    assert made.with_(db=f"sqlite:///{tmp_path}/p.db").run(customer="ada", cents=300) == GIVES["sql"]


def test_the_example_of_queues_comes_to_what_its_page_states(world: World) -> None:
    made = Definition.of(SHOWN["task"].example, tools={"shrink": lambda image: f"small {image}"})
    assert world.run(made) == GIVES["task"]
