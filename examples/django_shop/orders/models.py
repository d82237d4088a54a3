"""The shop's tables."""

from django.db import models


class Order(models.Model):
    """An order and its status."""

    class Status(models.TextChoices):
        """An order is paid in time, or expires."""

        PLACED = "placed"
        PAID = "paid"
        EXPIRED = "expired"

    email = models.EmailField()
    total = models.DecimalField(max_digits=8, decimal_places=2)
    status = models.CharField(max_length=10, choices=Status, default=Status.PLACED)
    receipt_sent_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return f"order {self.pk} of {self.email}"
