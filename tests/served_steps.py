"""An application under FastAPI and Flask whose steps write into a file when they begin and end, for tests that end its server in the middle of one.

The environment says where: `SERVED_DIRECTORY`, and how long a step in flight may take to end: `SERVED_GRACE`.
"""

import asyncio
import os
import time
from pathlib import Path
from typing import Any

from perdure import App, Context, step, step_info, workflow

DIRECTORY = Path(os.environ.get("SERVED_DIRECTORY", "."))


def note(what: str) -> None:
    """Adds a line with the key of the step."""
    file = os.open(DIRECTORY / "steps.txt", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    os.write(file, f"{what} {step_info().key}\n".encode())
    os.close(file)


@step
async def first() -> None:
    """Takes no time."""
    note("first")


@step
async def slow(seconds: float) -> None:
    """Takes as long as it is told, on the event loop."""
    note("slow")
    await asyncio.sleep(seconds)
    note("slow-end")


@step
def blocking(seconds: float) -> None:
    """Takes as long as it is told, in a thread."""
    note("blocking")
    time.sleep(seconds)
    note("blocking-end")


@step(idempotent=False)
async def once(seconds: float) -> None:
    """Must not run again after an interruption."""
    note("once")
    await asyncio.sleep(seconds)


@workflow
async def work(ctx: Context, kind: str, seconds: float) -> str:
    """Runs the first step and then one of the others."""
    await ctx.step(first)
    await ctx.step({"slow": slow, "blocking": blocking, "once": once}[kind], seconds)
    return kind


app = App([work], db=f"sqlite:///{DIRECTORY}/served.db", grace=os.environ.get("SERVED_GRACE", "30s"))


def fastapi() -> Any:
    """The application of uvicorn, with the engine on the server's event loop."""
    from fastapi import FastAPI

    web = FastAPI(lifespan=app.lifespan)

    @web.post("/{kind}/{seconds}")
    async def begin(kind: str, seconds: float) -> str:
        return (await app.start(work.with_(id="w"), kind, seconds)).id

    return web


def flask() -> Any:
    """The application of gunicorn, with the engine on a thread of its own."""
    from flask import Flask

    web = Flask("served")
    app.background()

    @web.post("/<kind>/<float:seconds>")
    def begin(kind: str, seconds: float) -> str:
        return app.background().start(work.with_(id="w"), kind, seconds).id

    return web
