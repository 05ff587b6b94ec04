"""The addresses of the shop."""

from django.urls import path

from shop.views import confirm, orders

urlpatterns = [path("orders/<str:order_id>", orders), path("orders/<str:order_id>/confirm", confirm)]
