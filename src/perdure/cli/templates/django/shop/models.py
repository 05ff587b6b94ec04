"""What the shop keeps of its orders."""

from django.db import models


class Order(models.Model):
    """An order, whose execution has the same id."""

    order_id = models.CharField(max_length=200, primary_key=True)
    cents = models.IntegerField()
    paid = models.BooleanField(default=False)
