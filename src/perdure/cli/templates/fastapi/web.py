"""The web application: each process of its server is an engine, and no other process is needed.

uvicorn web:web
"""

from typing import Any

from fastapi import FastAPI, HTTPException, Request
from fastapi.responses import JSONResponse
from perdure import HasEnded, InputDiffers, NotFound

from flows import app, confirmed, order

web = FastAPI(lifespan=app.lifespan)


@web.exception_handler(NotFound)
async def not_found(_: Request, error: Exception) -> JSONResponse:
    """Answers 404 wherever an order is asked for that does not exist."""
    return JSONResponse({"detail": str(error)}, 404)


@web.post("/orders/{order_id}", status_code=202)
async def place_order(order_id: str, cents: int) -> dict[str, Any]:
    """Starts an order. It is durable when this answers; a repeated request finds the order that it has started."""
    try:
        handle = await app.start(order.with_(id=order_id, strict=True), order_id, cents)
    except InputDiffers as error:
        raise HTTPException(409, str(error)) from error
    return {"order": handle.id, "created": handle.created}


@web.post("/orders/{order_id}/confirm", status_code=202)
async def confirm_order(order_id: str, yes: bool = True) -> dict[str, str]:
    """Sends the answer of the customer to the order."""
    handle = await app.handle(order_id, order)
    try:
        await handle.send(confirmed, yes, key="answer")  # with this key, a second answer has no effect
    except HasEnded as error:
        raise HTTPException(409, str(error)) from error
    return {"answer": "recorded"}


@web.get("/orders/{order_id}")
async def show_order(order_id: str) -> dict[str, Any]:
    """Shows the state of an order, and what it waits for."""
    handle = await app.handle(order_id, order)
    status = await handle.status()
    return {"order": order_id, "status": status.status, "why": status.why, "result": await handle.result() if status.status == "completed" else None}
