"""The shop under FastAPI: an engine in each process of the server, and no other process.

uvicorn examples.web.fastapi_shop:web --workers 2
curl -X POST 'localhost:8000/orders/o1?cents=4900'
curl localhost:8000/orders/o1
curl -X POST localhost:8000/imports/i1 --data-binary @stock.csv
curl -N localhost:8000/imports/i1/progress
"""

from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

from fastapi import FastAPI, HTTPException, Request
from fastapi.responses import HTMLResponse, JSONResponse, StreamingResponse

from examples.web.flows import DECISION_PAGE, SECRET, app, import_stock, order
from perdure import AlreadyDecided, ExecutionFailed, InputDiffers, LinkRefused, NotFound

web = FastAPI(title="Shop", lifespan=app.lifespan)


@web.exception_handler(NotFound)
async def not_found(_: Request, error: Exception) -> JSONResponse:
    """Answers 404 wherever an execution is asked for that does not exist."""
    return JSONResponse({"detail": str(error)}, 404)


@web.post("/orders/{order_id}", status_code=202)
async def place_order(order_id: str, cents: int) -> dict[str, Any]:
    """Starts an order. It is durable when this answers; a repeated request finds the order that it has started."""
    try:
        handle = await app.start(order.with_(id=order_id, strict=True), order_id, cents)
    except InputDiffers as error:
        raise HTTPException(409, str(error)) from error
    return {"order": handle.id, "created": handle.created}


@web.get("/orders/{order_id}")
async def show_order(order_id: str, wait: bool = False) -> dict[str, Any]:
    """Shows the state of an order; with `wait`, after its end."""
    handle = await app.handle(order_id, order)
    if wait:
        with suppress(ExecutionFailed):
            await handle.result()
    status = await handle.status()
    return {"order": order_id, "status": status.status, "why": status.why, "result": await handle.result() if status.status == "completed" else None}


@web.post("/imports/{import_id}", status_code=202)
async def begin_import(import_id: str, request: Request) -> dict[str, str]:
    """Starts the import of the file in the body."""
    await app.start(import_stock.with_(id=import_id), (await request.body()).decode())
    return {"progress": f"/imports/{import_id}/progress"}


@web.get("/imports/{import_id}/progress")
async def show_progress(import_id: str, request: Request) -> StreamingResponse:
    """Streams the progress of an import as server-sent events. A browser that reconnects continues behind the last event that it has seen."""
    handle = await app.handle(import_id, import_stock)
    seen = int(request.headers.get("last-event-id", 0))

    async def events() -> AsyncIterator[str]:
        async for one in handle.stream(after=seen):
            yield f"id: {one.number}\ndata: {one.value['done']}/{one.value['of']}\n\n"
        yield f"event: end\ndata: {(await handle.status()).status}\n\n"

    return StreamingResponse(events(), media_type="text/event-stream")


@web.get("/decide/{link}")
async def ask_for_decision(link: str) -> HTMLResponse:
    """Shows a page with a button: programs that look into mails open links, and must not decide by that."""
    return HTMLResponse(DECISION_PAGE)


@web.post("/decide/{link}")
async def decide(link: str, comment: str = "") -> dict[str, str]:
    """Gives the answer of a link that the manager has received."""
    try:
        await app.client.decide_by_link(link, comment=comment, secret=SECRET)
    except (LinkRefused, AlreadyDecided) as error:
        raise HTTPException(409, str(error)) from error
    return {"answer": "recorded"}
