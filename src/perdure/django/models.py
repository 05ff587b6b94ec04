"""The models of `perdure.django`: the rows of its outbox."""

from typing import ClassVar

from django.db import models


class OutboxEntry(models.Model):
    """A start or a message that waits for its post. `body` is opaque; `target` is the key of the execution; `error` says why a row can never be posted."""

    id = models.BigAutoField(primary_key=True)
    written_at = models.DateTimeField(auto_now_add=True)
    format = models.SmallIntegerField()
    target = models.TextField()
    body = models.BinaryField()
    error = models.TextField(null=True)  # NULL marks the rows that are to be posted, as in every outbox

    class Meta:
        """The table is made by `manage.py migrate`."""

        app_label = "perdure"
        db_table = "perdure_outbox"
        ordering: ClassVar[list[str]] = ["id"]
        verbose_name_plural = "outbox entries"

    def __str__(self) -> str:
        return f"{self.pk} to {self.target}"
