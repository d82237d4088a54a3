"""What the user's own test cases of schedules look like."""

from datetime import UTC, datetime, timedelta

from django.db import connection
from django.test import TestCase
from parcels.models import Order  # type: ignore[import-not-found]

from mainspring import Context, Mainspring, every, intervals

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
reports = Mainspring(name="reports")  # on the database that MAINSPRING_URL names


@reports.recurring("0 2 * * *", timezone="Europe/Berlin", retry=intervals("30m"))
def nightly(ctx: Context) -> None:
    assert ctx.scheduled_for is not None
    Order.objects.create(email=f"{ctx.scheduled_for:%m-%d %H:%M}", state="reported")
    if ctx.attempt == 1 and ctx.scheduled_for.day == 3:
        raise ConnectionError("on the second night")


@reports.consumer("mail")
async def mail(to: str) -> None: ...


class Reporting(TestCase):  # type: ignore[misc]
    def test_a_report_every_night_and_a_retry_that_begins_anew(self) -> None:
        with reports.testing(tx=connection, start=NOON) as kit:
            kit.sync.advance("3d")

            assert [order.email for order in Order.objects.order_by("pk")] == [
                "06-02 00:00",
                "06-03 00:00",
                "06-04 00:00",
            ]
            assert [run.outcome for run in kit.runs] == ["done", "failed", "done", "done"]
            assert [sent.schedule for sent in kit.published()] == ["nightly"] * 3
            view = reports.sync.schedules.get("nightly")
            assert view is not None
            assert view.fired == 3

    def test_schedules_are_steered_in_the_transaction(self) -> None:
        schedules = reports.sync.schedules
        with reports.testing(tx="default", start=NOON) as kit:
            schedules.pause("nightly", tx=connection)
            schedules.put("hourly", every("1h"), mail, "ann@example.com", tx=connection)
            schedules.once("later", NOON + timedelta(minutes=90), mail, "bob@example.com")
            schedules.trigger("nightly", tx="default")
            kit.sync.advance("2h")
            assert [run.schedule for run in kit.delivered()] == ["nightly", "hourly", "later", "hourly"]
            assert len(kit.published(mail.__name__)) == 0

            schedules.resume("nightly")
            kit.sync.advance("1d")
            assert len(kit.delivered(nightly)) == 2
            assert len(kit.delivered("mail")) == 2 + 1 + 24
