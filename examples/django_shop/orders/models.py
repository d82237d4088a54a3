"""What the shop remembers."""

from django.db import models


class Order(models.Model):
    """An order and where it stands."""

    class Status(models.TextChoices):
        """It is paid in time, or it expires."""

        PLACED = "placed"
        PAID = "paid"
        EXPIRED = "expired"

    email = models.EmailField()
    total = models.DecimalField(max_digits=8, decimal_places=2)
    status = models.CharField(max_length=10, choices=Status, default=Status.PLACED)
    receipt_sent_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return f"order {self.pk} of {self.email}"
