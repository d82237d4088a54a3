"""Tests of the shop, without a worker, a sleep or a row left behind."""

from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory

from django.core import mail
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connection
from django.test import TestCase

from mainspring.integrations.django import app
from orders.consumers import expire, send_receipt
from orders.messages import OrderPlaced, PaymentDue
from orders.models import Order


class Placing(TestCase):
    def test_a_customer_gets_one_receipt(self) -> None:
        with app.testing(tx=connection) as kit:
            answer = self.client.post("/orders/", {"email": "ada@example.com", "total": "9.50"})
            kit.sync.drain()

            assert answer.status_code == 201
            assert kit.delivered(send_receipt, order_id=answer.json()["id"])
            assert [each.to for each in mail.outbox] == [["ada@example.com"]]
            assert self.client.get(f"/orders/{answer.json()['id']}/").json()["receipt"] is True

    def test_a_message_delivered_twice_sends_one_receipt(self) -> None:
        order = Order.objects.create(email="ada@example.com", total="9.50")

        with app.testing(tx=connection) as kit:
            app.sync.publish(OrderPlaced(order.pk), tx=connection)
            app.sync.publish(OrderPlaced(order.pk), tx=connection)
            kit.sync.drain()

            assert len(kit.delivered(send_receipt)) == 2
            assert len(mail.outbox) == 1

    def test_a_rejected_order_publishes_nothing(self) -> None:
        with app.testing(tx=connection) as kit:
            answer = self.client.post("/orders/", {"email": "ada", "total": "9.50"})

            assert answer.status_code == 400
            assert kit.published() == []
            assert not Order.objects.exists()


class Paying(TestCase):
    def test_an_unpaid_order_expires_after_a_quarter_of_an_hour(self) -> None:
        with app.testing(tx=connection) as kit:
            order = self.client.post("/orders/", {"email": "ada@example.com", "total": "9.50"}).json()
            kit.sync.advance("14m")
            assert Order.objects.get(pk=order["id"]).status == "placed"

            kit.sync.advance("1m")

            assert kit.delivered(expire, order_id=order["id"])
            assert Order.objects.get(pk=order["id"]).status == "expired"

    def test_a_paid_order_never_expires(self) -> None:
        with app.testing(tx=connection) as kit:
            order = self.client.post("/orders/", {"email": "ada@example.com", "total": "9.50"}).json()
            self.client.post(f"/orders/{order['id']}/pay/")

            kit.sync.advance("1h")

            assert kit.delivered(expire) == []
            assert Order.objects.get(pk=order["id"]).status == "paid"


class Importing(TestCase):
    def setUp(self) -> None:
        folder = self.enterContext(TemporaryDirectory())
        self.file = Path(folder) / "orders.csv"

    def test_every_line_becomes_an_order(self) -> None:
        self.file.write_text("email,total\nada@example.com,9.50\nalan@example.com,7.25\n")

        with app.testing(tx=connection) as kit:
            call_command("import_orders", self.file, stdout=StringIO())

            assert Order.objects.count() == len(kit.published(OrderPlaced)) == len(kit.published(PaymentDue)) == 2

    def test_an_invalid_line_leaves_nothing_behind(self) -> None:
        self.file.write_text("email,total\nada@example.com,9.50\nalan@example.com,much\n")

        with app.testing(tx=connection) as kit:
            with self.assertRaisesMessage(CommandError, "orders.csv:3"):
                call_command("import_orders", self.file)

            assert not Order.objects.exists()
            assert kit.sync.drain() == []
            assert kit.pending == []
