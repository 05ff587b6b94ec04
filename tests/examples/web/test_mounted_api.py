"""The API inside FastAPI and Starlette, on a real server: below a prefix, with keys and with the application's own users, beside its own routes."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.examples.web.servers import ROOT, Shop, served

pytestmark = pytest.mark.slow

READY = ("/flows/healthz", 200)


def test_fastapi_has_the_api_below_a_prefix_with_keys_and_the_engine_of_the_app(tmp_path: Path) -> None:
    shop = Shop(tmp_path, ("uvicorn", "examples.web.fastapi_api:web", "--port", "{port}"), ready=READY)
    with served(shop):
        database = f"sqlite:///{tmp_path}/shop/shop.db"
        made = subprocess.run(
            [sys.executable, "-m", "perdure.cli", "keys", "create", "root", "--admin"], env={**os.environ, "PERDURE_DB": database, "PYTHONPATH": str(ROOT)},
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        key = {"Authorization": f"Bearer {made.stdout.strip()}"}
        assert shop.get("/flows/api/executions")[0] == 401
        assert shop.post("/orders/o1?cents=4900")[0] == 202
        status, body = shop.get("/flows/api/executions/order/o1/result?waitSeconds=20", **key)
        assert (status, json.loads(body)["value"]) == (200, "paid, row 1")
        assert 'action="/flows/login"' in shop.get("/flows/login")[1], "links begin with the path below which it is mounted"
        assert shop.get("/flows/api/nothing", **key)[0] == 404 and shop.get("/docs")[0] == 200, "the application has its own routes"
        assert shop.end(signal.SIGTERM) in (0, -signal.SIGTERM)
        assert "Traceback" not in shop.log.read_text()


def test_starlette_says_by_itself_who_asks(tmp_path: Path) -> None:
    shop = Shop(tmp_path, ("uvicorn", "examples.web.starlette_api:web", "--port", "{port}"), ready=READY)
    with served(shop):
        assert shop.get("/")[1] == "the shop"
        assert shop.get("/flows/api/executions")[0] == 401
        status, body = shop.get("/flows/api/whoami", **{"X-User": "ada"})
        assert (status, json.loads(body)["subject"]) == (200, "user:ada")
        assert shop.get("/flows/api/keys", **{"X-User": "ada"})[0] == 403
        assert shop.get("/flows/login")[0] == 404, "there is no sign-in where the application knows its users"
        assert shop.end(signal.SIGTERM) in (0, -signal.SIGTERM)
        assert "Traceback" not in shop.log.read_text()
