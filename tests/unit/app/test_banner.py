"""What a worker prints about itself never keeps it from saying that it is ready."""

import asyncio
import logging

import pytest

from mainspring import Mainspring
from mainspring.app.process import service
from mainspring.app.process.banner import banner
from mainspring.brokers import RabbitMQ


async def test_an_error_leaves_the_details_out_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def failing() -> list[str]:
        raise LookupError("no such zone")

    with caplog.at_level(logging.WARNING, "mainspring.app"):
        assert await service._in_time(failing) == []

    assert [record.getMessage() for record in caplog.records] == [
        "what the worker serves cannot be shown: LookupError: no such zone"
    ]


async def test_a_worker_that_is_stopped_does_not_wait_for_its_details() -> None:
    reading = asyncio.ensure_future(service._in_time(asyncio.Event().wait))  # type: ignore[arg-type]
    await asyncio.sleep(0)

    reading.cancel()

    with pytest.raises(asyncio.CancelledError):
        await reading


async def test_many_that_are_skipped_are_counted() -> None:
    app = Mainspring("memory://", name="shop")
    for number in range(30):
        app.consumer("orders.placed", group=f"group{number}")(_handle)

    async with app:
        lines = await banner(app, ["group0"])

    skipped = lines[next(place for place, line in enumerate(lines) if "skipped" in line) :]
    assert len(skipped) == 21
    assert skipped[0].strip() == "skipped    group group1: not named by --group"
    assert skipped[-1].strip() == "and 9 more"


async def test_where_routes_send_to_and_intakes_read_from_is_shown_without_a_password() -> None:
    app = Mainspring("memory://", name="shop")
    app.route("orders.*", to=RabbitMQ("amqp://ann:s3cr3t@localhost/", exchange="shop"))
    app.consumer("orders.paid", source=RabbitMQ("amqp://ann:s3cr3t@localhost/", queue="paid"))(_handle)

    async with app:
        lines = await banner(app)

    place = next(place for place, line in enumerate(lines) if "brokers" in line)
    assert [line.strip() for line in lines[place : place + 2]] == [
        "brokers    rabbitmq:orders.* sends to amqp://…@localhost/",
        "rabbitmq:paid is read from amqp://…@localhost/",
    ]


async def _handle(order: dict[str, int]) -> None: ...
