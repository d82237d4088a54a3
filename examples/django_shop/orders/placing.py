"""Placing and paying orders, for views and commands."""

from decimal import Decimal

from django.db import connection, transaction

from mainspring.integrations.django import app
from orders.messages import OrderPlaced, PaymentDue
from orders.models import Order


@transaction.atomic
def place_order(email: str, total: Decimal) -> Order:
    """Store the order and both of its messages in one transaction."""
    order = Order(email=email, total=total)
    order.full_clean()
    order.save()
    app.sync.publish(OrderPlaced(order.pk), tx=connection)
    app.sync.publish(PaymentDue(order.pk), delay="15m", key=f"order:{order.pk}", tx=connection)
    return order


@transaction.atomic
def pay_order(order: Order) -> None:
    """Mark the order as paid, and cancel its expiry."""
    order.status = Order.Status.PAID
    order.save()
    app.sync.cancel(PaymentDue, key=f"order:{order.pk}", tx=connection)
