"""The peer of `bench.web`: the least that a web application must do to lose no order, a row that is committed before it answers."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from threading import local

from fastapi import FastAPI, HTTPException

web = FastAPI()
here = local()


def connection() -> sqlite3.Connection:
    """The connection of this thread."""
    if not hasattr(here, "connection"):
        directory = Path(os.environ["SHOP_DIRECTORY"])
        directory.mkdir(parents=True, exist_ok=True)
        here.connection = sqlite3.connect(directory / "peer.db", timeout=60, isolation_level=None)
        for statement in ("PRAGMA journal_mode=WAL", "PRAGMA synchronous=FULL", "CREATE TABLE IF NOT EXISTS orders (id TEXT PRIMARY KEY, cents INTEGER)"):
            with closing(here.connection.execute(statement)):
                pass
    found: sqlite3.Connection = here.connection
    return found


@web.post("/orders/{order_id}", status_code=202)
def place_order(order_id: str, cents: int) -> dict[str, str]:
    """Inserts a row."""
    connection().execute("INSERT INTO orders VALUES (?, ?)", (order_id, cents))
    return {"order": order_id}


@web.get("/orders/{order_id}")
def show_order(order_id: str) -> None:
    """Finds none, so that the server is known to answer."""
    raise HTTPException(404)
