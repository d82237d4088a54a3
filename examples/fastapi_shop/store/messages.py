"""The shop's app and its messages."""

from dataclasses import dataclass

from mainspring import Mainspring
from store.database import URL

spring = Mainspring(URL, name="store")


@spring.message("orders.placed")
@dataclass
class OrderPlaced:
    """An order has been placed."""

    order_id: int


@spring.message("orders.payment_due")
@dataclass
class PaymentDue:
    """The time to pay for an order is over."""

    order_id: int
