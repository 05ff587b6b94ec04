"""What the shop answers."""

from django.db import connection, transaction
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, JsonResponse
from perdure import HasEnded, InputDiffers, NotFound

from shop.flows import app, confirmed, order
from shop.models import Order


def orders(request: HttpRequest, order_id: str) -> JsonResponse:
    """POST records an order and starts its execution, both or neither; GET shows its state."""
    if request.method != "POST":
        return _shown(order_id)
    cents = int(request.GET["cents"])
    shop = app.background()  # opened before the transaction begins: both write to one database
    try:
        with transaction.atomic():
            _, created = Order.objects.get_or_create(order_id=order_id, defaults={"cents": cents})
            shop.start(order.with_(id=order_id, strict=True, connection=connection), order_id, cents)
    except InputDiffers as error:
        return JsonResponse({"detail": str(error)}, status=409)
    return JsonResponse({"order": order_id, "created": created}, status=202)


def _shown(order_id: str) -> JsonResponse:
    try:
        handle = app.background().handle(order_id, order)
    except NotFound as error:
        return JsonResponse({"detail": str(error)}, status=404)
    status = handle.status()
    paid = Order.objects.filter(pk=order_id, paid=True).exists()
    return JsonResponse({"order": order_id, "status": status.status, "why": status.why, "paid": paid})


def confirm(request: HttpRequest, order_id: str) -> HttpResponse:
    """Sends the answer of the customer to the order."""
    if request.method != "POST":
        return HttpResponseNotAllowed(["POST"])
    try:
        app.background().handle(order_id, order).send(confirmed, request.GET.get("yes", "true") == "true", key="answer")  # a second answer has no effect
    except NotFound as error:
        return JsonResponse({"detail": str(error)}, status=404)
    except HasEnded as error:
        return JsonResponse({"detail": str(error)}, status=409)
    return JsonResponse({"answer": "recorded"}, status=202)
