"""Consumers of the shop. Django finds this file by its name."""

from django.core.mail import send_mail
from django.utils import timezone

from mainspring import exponential
from mainspring.integrations.django import app
from orders.messages import OrderPlaced, PaymentDue
from orders.models import Order


@app.consumer(OrderPlaced, retry=exponential("1s", cap="10m", attempts=15), timeout="30s")
def send_receipt(placed: OrderPlaced) -> None:
    """Send the receipt. A plain function runs in a thread, so it may use the ORM and block."""
    order = Order.objects.get(pk=placed.order_id)
    if order.receipt_sent_at is not None:
        return  # a message may be delivered twice
    send_mail("Your receipt", f"{order.total} for order {order.pk}", "shop@example.com", [order.email])
    Order.objects.filter(pk=order.pk).update(receipt_sent_at=timezone.now())


@app.consumer(PaymentDue)
def expire(due: PaymentDue) -> None:
    """Expire the order unless it is paid."""
    Order.objects.filter(pk=due.order_id, status=Order.Status.PLACED).update(status=Order.Status.EXPIRED)
