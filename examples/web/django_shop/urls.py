"""The addresses of the shop and what they answer."""

from collections.abc import Iterator
from contextlib import suppress

from django.db import connection, transaction
from django.http import HttpRequest, HttpResponse, HttpResponseBase, HttpResponseNotAllowed, JsonResponse, StreamingHttpResponse
from django.urls import path

from examples.web.django_shop.models import Order
from examples.web.flows import DECISION_PAGE, SECRET, app, import_stock, order
from perdure import AlreadyDecided, ExecutionFailed, InputDiffers, LinkRefused, NotFound


def orders(request: HttpRequest, order_id: str) -> HttpResponse:
    """POST records an order and starts its execution, both or neither; GET shows its state, with `wait` after its end."""
    if request.method != "POST":
        return _show(request, order_id)
    cents = int(request.GET["cents"])
    try:
        with transaction.atomic():
            _, created = Order.objects.get_or_create(order_id=order_id, defaults={"cents": cents})
            app.background().start(order.with_(id=order_id, strict=True, connection=connection), order_id, cents)
    except InputDiffers as error:
        return JsonResponse({"detail": str(error)}, status=409)
    return JsonResponse({"order": order_id, "created": created}, status=202)


def _show(request: HttpRequest, order_id: str) -> HttpResponse:
    try:
        handle = app.background().handle(order_id, order)
    except NotFound as error:
        return JsonResponse({"detail": str(error)}, status=404)
    if "wait" in request.GET:
        with suppress(ExecutionFailed):
            handle.result()
    status = handle.status()
    result = handle.result() if status.status == "completed" else None
    return JsonResponse({"order": order_id, "status": status.status, "why": status.why, "result": result})


def imports(request: HttpRequest, import_id: str) -> HttpResponse:
    """Starts the import of the file in the body."""
    app.background().start(import_stock.with_(id=import_id), request.body.decode())
    return JsonResponse({"progress": f"/imports/{import_id}/progress"}, status=202)


def progress(request: HttpRequest, import_id: str) -> HttpResponseBase:
    """Streams the progress of an import as server-sent events. A browser that reconnects continues behind the last event that it has seen."""
    handle = app.background().handle(import_id, import_stock)
    seen = int(request.headers.get("Last-Event-ID", 0))

    def events() -> Iterator[str]:
        for one in handle.stream(after=seen):
            yield f"id: {one.number}\ndata: {one.value['done']}/{one.value['of']}\n\n"
        yield f"event: end\ndata: {handle.status().status}\n\n"

    return StreamingHttpResponse(events(), content_type="text/event-stream")


def decide(request: HttpRequest, link: str) -> HttpResponse:
    """GET shows a page with a button, since programs that look into mails open links; POST gives the answer of the link."""
    if request.method == "GET":
        return HttpResponse(DECISION_PAGE)
    if request.method != "POST":
        return HttpResponseNotAllowed(["GET", "POST"])
    try:
        app.background().client.decide_by_link(link, comment=request.GET.get("comment", ""), secret=SECRET)
    except (LinkRefused, AlreadyDecided) as error:
        return JsonResponse({"detail": str(error)}, status=409)
    return JsonResponse({"answer": "recorded"})


urlpatterns = [
    path("orders/<str:order_id>", orders),
    path("imports/<str:import_id>", imports),
    path("imports/<str:import_id>/progress", progress),
    path("decide/<str:link>", decide),
]
