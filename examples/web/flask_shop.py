"""The shop under Flask, or any other WSGI framework: `app.background()` is an engine on a thread of its own in each process of the server.

    gunicorn examples.web.flask_shop:web --workers 2 --threads 8
    flask --app examples.web.flask_shop:web run --reload

A process opens the App when it first calls `app.background()`, which is here when it imports this file, so that it takes over the work of processes that
have ended. Under `gunicorn --preload` that is the process which forks the workers; each of these opens the App for itself with its first request.
"""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from flask import Flask, Response, request

from examples.web.flows import DECISION_PAGE, SECRET, app, import_stock, order
from perdure import AlreadyDecided, ExecutionFailed, InputDiffers, LinkRefused, NotFound

web = Flask("shop")
app.background()


@web.errorhandler(NotFound)
def not_found(error: NotFound) -> tuple[dict[str, str], int]:
    """Answers 404 wherever an execution is asked for that does not exist."""
    return {"detail": str(error)}, 404


@web.errorhandler(InputDiffers)
@web.errorhandler(LinkRefused)
@web.errorhandler(AlreadyDecided)
def conflict(error: Exception) -> tuple[dict[str, str], int]:
    """Answers 409 when a request contradicts what is recorded."""
    return {"detail": str(error)}, 409


@web.post("/orders/<order_id>")
def place_order(order_id: str) -> tuple[dict[str, Any], int]:
    """Starts an order. It is durable when this answers; a repeated request finds the order that it has started."""
    handle = app.background().start(order.with_(id=order_id, strict=True), order_id, int(request.args["cents"]))
    return {"order": handle.id, "created": handle.created}, 202


@web.get("/orders/<order_id>")
def show_order(order_id: str) -> dict[str, Any]:
    """Shows the state of an order; with `wait`, after its end."""
    handle = app.background().handle(order_id, order)
    if "wait" in request.args:
        with suppress(ExecutionFailed):
            handle.result()
    status = handle.status()
    return {"order": order_id, "status": status.status, "why": status.why, "result": handle.result() if status.status == "completed" else None}


@web.post("/imports/<import_id>")
def begin_import(import_id: str) -> tuple[dict[str, str], int]:
    """Starts the import of the file in the body."""
    app.background().start(import_stock.with_(id=import_id), request.get_data(as_text=True))
    return {"progress": f"/imports/{import_id}/progress"}, 202


@web.get("/imports/<import_id>/progress")
def show_progress(import_id: str) -> Response:
    """Streams the progress of an import as server-sent events. A browser that reconnects continues behind the last event that it has seen."""
    handle = app.background().handle(import_id, import_stock)
    seen = int(request.headers.get("Last-Event-ID", 0))

    def events() -> Iterator[str]:
        for one in handle.stream(after=seen):
            yield f"id: {one.number}\ndata: {one.value['done']}/{one.value['of']}\n\n"
        yield f"event: end\ndata: {handle.status().status}\n\n"

    return Response(events(), mimetype="text/event-stream")


@web.get("/decide/<link>")
def ask_for_decision(link: str) -> str:
    """Shows a page with a button: programs that look into mails open links, and must not decide by that."""
    return DECISION_PAGE


@web.post("/decide/<link>")
def decide(link: str) -> dict[str, str]:
    """Gives the answer of a link that the manager has received."""
    app.background().client.decide_by_link(link, comment=request.args.get("comment", ""), secret=SECRET)
    return {"answer": "recorded"}
