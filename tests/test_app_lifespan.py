"""`App.lifespan` in the applications of ASGI frameworks, and `App.background` in processes without a block."""

import asyncio
import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest

from perdure import App, Context, WrongVerb, step, workflow
from perdure import app as app_module
from perdure.core.errors import StoreUnavailable
from perdure.stores.sqlite import group_commit

ROOT = Path(__file__).parents[1]


@step
async def greeting(name: str) -> str:
    return f"Hello {name}"


@step
async def start_from_step(name: str) -> str:
    return str(await (await shop.start(greet.with_(id=f"from a step {name}"), name)).result())


@workflow
async def greet(ctx: Context, name: str) -> str:
    return await ctx.step(greeting, name)


@workflow
async def outer(ctx: Context, name: str) -> str:
    return await ctx.step(start_from_step, name)


shop = App([greet, outer])


@pytest.fixture(autouse=True)
def database(tmp_path: Path) -> None:
    shop.db = f"sqlite:///{tmp_path}/shop.db"


def fastapi() -> Any:
    from fastapi import FastAPI

    web = FastAPI(lifespan=shop.lifespan)

    @web.get("/{name}")
    async def say(name: str) -> dict[str, str]:
        return {"says": await shop.run(greet, name)}

    return web


def starlette() -> Any:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    async def say(request: Request) -> JSONResponse:
        return JSONResponse({"says": await shop.run(greet, request.path_params["name"])})

    return Starlette(routes=[Route("/{name}", say)], lifespan=shop.lifespan)


def litestar() -> Any:
    from litestar import Litestar, get

    @get("/Ada")
    async def say() -> dict[str, str]:
        return {"says": await shop.run(greet, "Ada")}

    return Litestar([say], lifespan=[shop.lifespan])


@asynccontextmanager
async def lived(web: Any) -> AsyncIterator[None]:
    """Does what a server does at its start and its end."""
    received, sent = asyncio.Queue[dict[str, Any]](), asyncio.Queue[dict[str, Any]]()
    task = asyncio.create_task(web({"type": "lifespan", "asgi": {"version": "3.0"}, "state": {}}, received.get, sent.put))
    try:
        for what in ("startup", "shutdown"):
            await received.put({"type": f"lifespan.{what}"})
            assert (await sent.get())["type"] == f"lifespan.{what}.complete"
            if what == "startup":
                yield
        await task
    finally:
        task.cancel()


async def answer(web: Any, path: str) -> Any:
    """The body of the answer to a GET, decoded from JSON."""
    body = b""

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        nonlocal body
        body += message.get("body", b"")

    scope = {"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "GET", "scheme": "http", "path": path, "raw_path": path.encode()}
    await web({**scope, "query_string": b"", "root_path": "", "headers": [], "client": ("c", 1), "server": ("s", 80), "state": {}}, receive, send)
    return json.loads(body)


@pytest.mark.parametrize("made_by", [fastapi, starlette, litestar])
async def test_the_lifespan_of_a_framework_is_that_of_the_engine(made_by: Callable[[], Any]) -> None:
    web = made_by()
    for _ in range(2):
        async with lived(web):
            assert await answer(web, "/Ada") == {"says": "Hello Ada"}
        with pytest.raises(WrongVerb, match="after the App was closed"):
            await shop.start(greet, "Ada")


@pytest.mark.parametrize("opens", ["block", "thread"])
async def test_an_async_step_may_use_the_verbs_of_its_app(opens: str) -> None:
    if opens == "block":
        async with shop:
            assert await shop.run(outer, "Ada") == "Hello Ada"
    else:

        def use() -> str:
            with shop as face:
                return face.run(outer, "Ada")

        assert await asyncio.to_thread(use) == "Hello Ada"


async def test_the_background_is_refused_where_a_loop_has_the_app_open() -> None:
    async with shop:
        with pytest.raises(WrongVerb, match="opened twice"):
            shop.background()


def test_the_background_is_the_face_of_a_block() -> None:
    with shop as face:
        assert face.run(greet, "Ada") == shop.background().run(greet, "Ada") == "Hello Ada"
    with pytest.raises(WrongVerb, match="after the App was closed"):
        face.run(greet, "Ada")


def ran(program: str, directory: Path, says: str = "") -> str:
    """What a program prints that begins with this App in a directory of its own."""
    begin = """
import os, sys, threading
from perdure import App, Context, step, workflow
@step
def greeting(name: str) -> str:
    return f"Hello {name}"
@workflow
async def greet(ctx: Context, name: str) -> str:
    return await ctx.step(greeting, name)
app = App([greet], db="sqlite:///shop.db")
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", begin + program],
        cwd=directory,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr.strip()) == (0, says), done.stderr
    return done.stdout


@pytest.mark.slow
def test_all_threads_use_one_engine_which_the_end_of_the_process_closes(tmp_path: Path) -> None:
    program = """
faces = []
threads = [threading.Thread(target=lambda: faces.append(app.background())) for _ in range(8)]
[one.start() for one in threads]
[one.join() for one in threads]
print(len(faces), len({one._thread for one in faces}), faces.pop().run(greet, "Ada"))
"""
    assert ran(program, tmp_path) == "8 1 Hello Ada\n"
    assert not list(tmp_path.glob("*-wal")) or (tmp_path / "shop.db-wal").stat().st_size == 0, "the file was closed"


@pytest.mark.slow
def test_a_forked_process_opens_its_own(tmp_path: Path) -> None:
    program = """
print(app.background().run(greet, "Ada"), flush=True)
pid = os.fork()
if not pid:
    try:
        print(app.background().run(greet, "Bob"), flush=True)
    finally:
        sys.exit(0)
assert os.waitpid(pid, 0)[1] == 0
print(app.background().run(greet, "Cy"))
"""
    assert ran(program, tmp_path) == "Hello Ada\nHello Bob\nHello Cy\n"


@pytest.mark.slow
def test_what_has_failed_is_opened_again(tmp_path: Path) -> None:
    program = """
first = app.background()
print(first.run(greet, "Ada"))
app._opened.failure = RuntimeError("planted: the engine has failed")
second = app.background()
print(second._thread is not first._thread, second.run(greet, "Bob"))
"""
    says = "an App that ran in the background has ended with an error: planted: the engine has failed"
    assert ran(program, tmp_path, says) == "Hello Ada\nTrue Hello Bob\n"


@pytest.mark.slow
def test_a_reloaded_module_gives_an_app_that_replaces_the_one_in_the_background(tmp_path: Path) -> None:
    (tmp_path / "flows.py").write_text(RELOADED)
    program = """
import importlib, flows
first = flows.app.background()
print(first.run(flows.greet, "Ada"))
other = App([greet], db="sqlite:///other.db").background()
flows = importlib.reload(flows)
second = flows.app.background()
print(second.run(flows.greet, "Bob"), len([one for one in second.client.engines() if one.alive]), other.run(greet, "Cy"))
try:
    first.run(flows.greet, "Dan")
except perdure.WrongVerb as error:
    print(str(error).partition(":")[0])
"""
    expected = "Hello Ada\nHello Bob 1 Hello Cy\napp.run() was called after the App was closed. Open it\n"
    assert ran("import perdure\n" + program, tmp_path) == expected


RELOADED = """
from perdure import App, Context, workflow

@workflow
async def greet(ctx: Context, name: str) -> str:
    return f"Hello {name}"

app = App([greet], db="sqlite:///flows.db")
"""


@pytest.mark.slow
def test_two_apps_of_a_program_with_one_workflow_are_both_open(tmp_path: Path) -> None:
    program = """
first, second = (App([greet], db="sqlite:///shop.db").background() for _ in range(2))
print(first.run(greet, "Ada"), second.run(greet, "Bob"), first.run(greet, "Cy"))
"""
    assert ran(program, tmp_path) == "Hello Ada Hello Bob Hello Cy\n"


@pytest.mark.slow
@pytest.mark.parametrize("patch", ["from gevent import monkey; monkey.patch_all()", "import eventlet; eventlet.monkey_patch()"])
def test_greenlets_in_place_of_threads_are_refused(tmp_path: Path, patch: str) -> None:
    pytest.importorskip(patch.split()[1].rstrip(";"))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", f"{patch}\nfrom perdure import App\nApp(db='sqlite:///shop.db').background()"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "has replaced threads by greenlets" in done.stderr
    assert "Serve with threads" in done.stderr


def test_an_app_that_is_opened_within_a_transaction_of_the_caller_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app_module, "OPENING_S_MAX", 0.3)
    monkeypatch.setattr(group_commit, "WRITE_WAIT_MAX_S", 0.6)
    app = App([greet], db=f"sqlite:///{tmp_path}/held.db")
    with app:
        """Makes the tables."""
    with closing(sqlite3.connect(tmp_path / "held.db", isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailable, match="open the App before it begins"):
            app.background()
        connection.execute("ROLLBACK")
    assert app.background().run(greet, "Ada") == "Hello Ada"
    app._close_in_background()
