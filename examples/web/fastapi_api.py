"""Perdure's HTTP API inside a FastAPI application, below ``/flows``: one process, one port, and an engine in it.

PERDURE_DB=sqlite:///.shop/shop.db perdure keys create root --admin
uvicorn examples.web.fastapi_api:web
curl -H "Authorization: Bearer $KEY" localhost:8000/flows/api/executions
"""

from fastapi import FastAPI

import perdure.api
from examples.web.flows import app, order

service = perdure.api.app(app)
web = FastAPI(title="Shop", lifespan=service.lifespan)
web.mount("/flows", service)


@web.post("/orders/{order_id}", status_code=202)
async def place_order(order_id: str, cents: int) -> dict[str, str | bool]:
    """Starts an order, as anywhere in the application."""
    handle = await app.start(order.with_(id=order_id), order_id, cents)
    return {"order": handle.id, "created": handle.created}
