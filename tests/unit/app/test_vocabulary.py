"""Words of other libraries: each is rejected with what to write here instead."""

import asyncio
import inspect
import re
from collections.abc import Callable
from typing import Any

import pytest

from mainspring import (
    AppOptions,
    Cancel,
    ConsumerOptions,
    Context,
    Mainspring,
    RecurringOptions,
    SendOptions,
    Snooze,
    exponential,
    intervals,
    proportional,
    vocabulary,
)
from mainspring.app.options import refuse_unknown
from mainspring.app.schedule.recurring import OVERRIDABLE
from mainspring.model.errors import BadOption, BadSignature, Misuse

shop = Mainspring("memory://", name="shop")
app: Any = shop  # of no type: what is written to it here is wrong


@shop.consumer("orders.placed")
async def send_receipt(order: dict[str, Any]) -> None: ...


def _published(**options: object) -> None:
    asyncio.run(app.publish("orders.placed", {"id": 7}, **options))


def _sent(**options: object) -> None:
    sending: Any = send_receipt
    asyncio.run(sending.send({"id": 7}, **options))


@pytest.mark.parametrize(
    ("call", "word", "value", "advice"),
    [
        (app.consumer, "max_retries", 3, "write retry=exponential(attempts=5), which counts the first attempt too"),
        (app.consumer, "retries", 3, "write retry=exponential(attempts=5)"),
        (app.consumer, "backoff", 2, "write retry=exponential('1s', cap='10m')"),
        (app.consumer, "autoretry_for", (OSError,), "write retry=exponential(retry_on=ConnectionError)"),
        (app.consumer, "retry_on", OSError, "write retry=exponential(retry_on=ConnectionError)"),
        (app.consumer, "queue", "mail", "topics come first, @app.consumer('orders.placed')"),
        (app.consumer, "name", "mail", "the consumer's own name is group='receipts'"),
        (app.consumer, "bind", True, "annotate a parameter of the handler with Context"),
        (app.consumer, "acks_late", True, "leave it out: a message is settled when its handler has ended"),
        (app.consumer, "time_limit", 30, "write timeout='30s'"),
        (app.consumer, "rate_limit", "10/m", "write rate='100/1m'"),
        (app.consumer, "max_concurrency", 4, "write concurrency=20"),
        (app.consumer, "expires", "1h", "write expires='1h', in publish(…) or send(…)"),
        (app.consumer, "crontab", "* * * * *", "the rhythm comes first: @app.recurring('0 9 * * mon-fri')"),
        (_published, "countdown", 10, "publish(…) has no option 'countdown': write delay='10s'"),
        (_published, "eta", None, "write at=…, an aware datetime"),
        (_published, "queue", "mail", "the topic comes first: publish('orders.placed', payload)"),
        (_published, "max_retries", 3, "which counts the first attempt too, in @app.consumer(…)"),
        (_published, "task_id", "x", "write message_id=…"),
        (_published, "ttl", 10, "write expires='1h'"),
        (_published, "session", None, "write tx=session"),
        (_published, "kwargs", {}, "a message has one payload, the second argument"),
        (_sent, "countdown", 10, "send_receipt.send(…) has no option 'countdown': write delay='10s'"),
        (_sent, "link", None, "write then=another_consumer"),
        (_sent, "link_error", None, "write failed=another_consumer"),
        (lambda **o: app.recurring("0 9 * * *", **o), "tz", "UTC", "write timezone='Europe/Berlin'"),
        (lambda **o: app.recurring("0 9 * * *", **o), "max_instances", 1, "write overlap='skip'"),
        (lambda **o: app.recurring("0 9 * * *", **o), "misfire_grace_time", 1, "write misfire_after='5m'"),
        (lambda **o: app.recurring("0 9 * * *", **o), "kwargs", {}, "write payload={'id': 7}"),
        (lambda **o: Mainspring("memory://", **o), "broker", "x", "the database's URL comes first"),
        (lambda **o: Mainspring("memory://", **o), "timezone", "UTC", "timezone='Europe/Berlin', in @app.recurring(…)"),
    ],
)
def test_a_foreign_option_is_rejected_with_ours(
    call: Callable[..., object], word: str, value: object, advice: str
) -> None:
    with pytest.raises(BadOption) as raised:
        call(**{word: value})

    assert f"has no option {word!r}: " in str(raised.value)
    assert advice in str(raised.value)


@pytest.mark.parametrize(
    ("word", "advice"),
    [("cron", "write rhythm='0 9 * * mon-fri', or 'every 90s'"), ("tz", "write timezone='Europe/Berlin'")],
)
def test_a_foreign_word_in_the_configuration_of_a_schedule_is_answered_as_it_is_written_there(
    word: str, advice: str
) -> None:
    with pytest.raises(BadOption, match=re.escape(f"a schedule in the configuration has no option {word!r}: {advice}")):
        refuse_unknown([word], OVERRIDABLE, "a schedule in the configuration")


@pytest.mark.parametrize(
    ("policy", "word", "advice"),
    [
        (exponential, "max_attempts", "exponential(…) has no option 'max_attempts': write attempts=5"),
        (exponential, "max_retries", "write attempts=5, which counts the first attempt too"),
        (exponential, "max_delay", "write cap='10m'"),
        (exponential, "multiplier", "write factor=2.0"),
        (proportional, "max_tries", "proportional(…) has no option 'max_tries': write attempts=5"),
        (intervals, "exceptions", "intervals(…) has no option 'exceptions': write retry_on=ConnectionError"),
        (intervals, "colour", "it accepts jitter, budget, retry_on, give_up_on"),
    ],
)
def test_a_foreign_option_of_a_policy_is_rejected_with_ours(policy: Any, word: str, advice: str) -> None:
    with pytest.raises(TypeError) as raised:
        policy(**{word: 5})

    assert advice in str(raised.value)


@pytest.mark.parametrize(
    ("thing", "word", "advice"),
    [
        (app, "task", "there is no Mainspring.task: write @app.consumer('orders.placed') above the handler"),
        (app, "job", "write @app.consumer('orders.placed')"),
        (app, "periodic_task", "write @app.recurring('0 9 * * mon-fri')"),
        (app, "send_task", "write await app.publish('orders.placed', payload)"),
        (app, "start", "write app.run(), or `mainspring worker shop:app`"),
        (app.sync, "enqueue", "write await app.publish("),
        (send_receipt, "delay", "there is no send_receipt.delay: write await send_receipt.send(payload)"),
        (send_receipt, "apply_async", "write await send_receipt.send(payload, delay='10s')"),
        (send_receipt, "s", "write await send_receipt.send(payload, then=another_consumer)"),
        (send_receipt.sync, "delay", "send_receipt.sync.send(payload) in blocking code"),
    ],
)
def test_a_foreign_method_is_rejected_with_ours(thing: object, word: str, advice: str) -> None:
    with pytest.raises(AttributeError) as raised:
        getattr(thing, word)

    assert advice in str(raised.value)


def test_a_word_that_no_library_has_is_missing_as_always() -> None:
    assert not hasattr(app, "colour")
    assert not hasattr(send_receipt, "colour")


def test_every_row_of_the_table_is_about_an_option_that_there_is() -> None:
    options = (AppOptions, ConsumerOptions, RecurringOptions, SendOptions)
    ours = (
        {"rhythm"}
        | {name for each in options for name in each.__annotations__}
        | set(inspect.signature(exponential).parameters)
    )

    assert {row.marker for row in vocabulary._OPTIONS} <= ours


def test_a_block_that_does_not_await_is_rejected_with_what_to_write() -> None:
    with pytest.raises(Misuse, match=r"write `async with app:`; blocking code needs no block, app\.sync\.publish"), app:
        pass


def test_a_method_is_rejected_with_how_to_register_one() -> None:
    with pytest.raises(BadSignature, match=r"Shop\.handle is a method.*app\.consumer\(…\)\(shop\.handle\)"):

        class Shop:
            @shop.consumer("orders.placed")
            async def handle(self, order: dict[str, Any]) -> None: ...

    with pytest.raises(BadSignature, match=r"takes 'self' and is no method: remove it; .*`ctx: Context`"):

        @shop.consumer("orders.placed")
        async def bound(self: Any, order: dict[str, Any]) -> None: ...


async def test_the_method_of_an_object_is_a_consumer() -> None:
    shop = Mainspring("memory://", name="shop")

    class Till:
        def __init__(self) -> None:
            self.rung: list[int] = []

        async def ring(self, order: dict[str, int], ctx: Context) -> None:
            self.rung.append(order["id"])

    till = Till()
    ring = shop.consumer("orders.placed")(till.ring)

    with shop.testing() as kit:
        await shop.publish("orders.placed", {"id": 7})
        await ring.send({"id": 8})
        await kit.drain()

    assert sorted(till.rung) == [7, 8]


async def test_an_outcome_that_is_raised_fails_with_what_to_write() -> None:
    shop = Mainspring("memory://", name="shop")

    @shop.consumer("orders.placed", retry="none")
    async def snooze(order: dict[str, Any]) -> None:
        raise Snooze("5m")  # type: ignore[misc]

    @shop.consumer("orders.placed", retry="none")
    async def cancel(order: dict[str, Any]) -> None:
        raise Cancel  # type: ignore[misc]

    with shop.testing() as kit, kit.expect_dead(snooze) as snoozed, kit.expect_dead(cancel) as cancelled:
        await shop.publish("orders.placed", {"id": 7})
        await kit.drain()

    assert [str(each.error).partition(": an ")[2] for each in (*snoozed, *cancelled)] == [
        "outcome is returned, not raised, so write `return Snooze(…)`",
        "outcome is returned, not raised, so write `return Cancel(…)`",
    ]
