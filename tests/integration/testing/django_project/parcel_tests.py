"""What the user's own test cases look like."""

import asyncio

from django.db import connection, transaction
from django.test import TestCase
from parcels.consumers import app, confirm, place, thank  # type: ignore[import-not-found]
from parcels.models import Order  # type: ignore[import-not-found]


class Confirming(TestCase):  # type: ignore[misc]
    def test_an_order_is_confirmed_and_thanked_for_a_day_later(self) -> None:
        with app.testing(tx=connection) as kit:
            order = place("ada@example.com")
            kit.sync.advance("1d")

            assert kit.delivered(confirm, id=order.pk)
            assert kit.delivered(thank, id=order.pk)
            assert kit.published("mail", id=order.pk)
            assert Order.objects.get().state == "confirmed"

    def test_a_failing_handler_leaves_nothing_but_its_dead_letter(self) -> None:
        with app.testing(tx="default") as kit:
            place("nobody")
            with kit.expect_dead(confirm, error=ValueError):
                kit.sync.advance("1h")

            assert Order.objects.get().state == "placed"
            assert kit.published("orders.confirmed") == []
            assert len(app.sync.dead.list()) == len(kit.dead) == 1
            assert app.sync.dead.revive(group="confirm") == 1
            assert [waiting.group for waiting in kit.pending] == ["confirm"]

    def test_what_a_view_rolls_back_was_never_published(self) -> None:
        with app.testing(tx=connection) as kit:
            try:
                with transaction.atomic():
                    place("ada@example.com")
                    raise LookupError
            except LookupError:
                pass

            assert kit.published() == []
            assert kit.sync.drain() == []

    def test_a_callback_of_a_failed_handler_is_dropped(self) -> None:
        called: list[str] = []

        @app.consumer("callbacks", group="callbacks")  # type: ignore[untyped-decorator]
        def register(fails: bool) -> None:
            transaction.on_commit(lambda: called.append(f"fails={fails}"))
            if fails:
                raise ValueError

        with app.testing(tx=connection) as kit, self.captureOnCommitCallbacks(execute=True):
            app.sync.publish("callbacks", payload=False)
            app.sync.publish("callbacks", payload=True)
            kit.sync.drain()

        assert called == ["fails=False"]

    def test_a_loop_may_drain_it_too(self) -> None:
        with app.testing(tx=connection) as kit:
            place("ada@example.com")
            runs = [*asyncio.run(kit.drain()), *asyncio.run(kit.advance("1d"))]

            assert [(ran.group, ran.outcome) for ran in runs] == [("confirm", "done"), ("thank", "done")]
