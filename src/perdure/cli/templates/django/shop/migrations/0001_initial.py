"""The table of orders."""

from django.db import migrations, models


class Migration(migrations.Migration):
    """See `shop.models`."""

    initial = True
    operations = [
        migrations.CreateModel(
            name="Order",
            fields=[
                ("order_id", models.CharField(max_length=200, primary_key=True, serialize=False)),
                ("cents", models.IntegerField()),
                ("paid", models.BooleanField(default=False)),
            ],
        )
    ]
