"""Makes the table of the outbox."""

from typing import Any, ClassVar

from django.db import migrations, models


class Migration(migrations.Migration):
    """See `perdure.django.models.OutboxEntry`."""

    initial = True
    dependencies: ClassVar[list[Any]] = []
    operations: ClassVar[list[Any]] = [
        migrations.CreateModel(
            name="OutboxEntry",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("written_at", models.DateTimeField(auto_now_add=True)),
                ("format", models.SmallIntegerField()),
                ("target", models.TextField()),
                ("body", models.BinaryField()),
                ("error", models.TextField(null=True)),
            ],
            options={"verbose_name_plural": "outbox entries", "db_table": "perdure_outbox", "ordering": ["id"]},
        ),
    ]
