"""The shop's messages."""

from dataclasses import dataclass

from mainspring.integrations.django import app


@app.message("orders.placed")
@dataclass
class OrderPlaced:
    """An order has been placed."""

    order_id: int


@app.message("orders.payment_due")
@dataclass
class PaymentDue:
    """The time to pay for an order is over."""

    order_id: int
