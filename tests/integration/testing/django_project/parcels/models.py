"""What is stored of an order."""

from django.db import models


class Order(models.Model):  # type: ignore[misc]
    email = models.TextField()
    state = models.TextField(default="placed")

    def __str__(self) -> str:
        return f"{self.email}: {self.state}"
