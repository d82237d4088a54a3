"""Order and limits as they are written: what is refused, in which words, and what is shown_limits of them."""

import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mainspring import Context, Mainspring
from mainspring.app.consume.limits import read_limits, shown_limits
from mainspring.model.errors import BadOption
from mainspring.model.limits import Limits, Rate

MINUTE = timedelta(minutes=1)
NO_RATE = "is not a rate: write how many in what time, as in '100/1m' or '5/1s'"
NO_NUMBER = "must be a whole number from 1 to 1,000,000"


def read(*, keyless: bool = False, **options: Any) -> Limits | None:
    return read_limits(options, "mail", keyless=keyless)


@pytest.mark.parametrize(
    ("written", "per"),
    [
        ("5/1m", MINUTE),
        ("5 / 1 m", MINUTE),
        (" 5/m ", MINUTE),
        ("5/h", timedelta(hours=1)),
        ("5/10ms", timedelta(milliseconds=10)),
        ("5/1h30m", timedelta(minutes=90)),
        ("5/31d", timedelta(days=31)),
    ],
)
def test_a_rate_is_how_many_in_what_time(written: str, per: timedelta) -> None:
    assert read(rate=written) == Limits(rate=Rate(5, per))
    assert read(key_rate=written) == Limits(key_rate=Rate(5, per))


@pytest.mark.parametrize("option", ["rate", "key_rate"])
@pytest.mark.parametrize(
    "written",
    [
        *("", "100", "100/", "/1m", "/", "5/60", "5/min", "5 per minute", "1/2/3s", "-5/1s", "1.5/1s", "1_000/1m"),
        *("٣/1s", "5/-1s", 100, 0, True, 2.5, ("5", "1m"), MINUTE),
    ],
)
def test_what_is_no_rate_is_refused_with_what_to_write(option: str, written: Any) -> None:
    with pytest.raises(BadOption, match=f"^{re.escape(f'{option}={written!r} {NO_RATE}')}$"):
        read(**{option: written})


@pytest.mark.parametrize(
    ("written", "instead"),
    [
        ("0/1m", "write how many, from 1 to 1,000,000, before the slash"),
        ("1000001/1m", "write how many, from 1 to 1,000,000, before the slash"),
        ("1/0s", "write a time between 10ms and 31d after the slash"),
        ("1/9ms", "write a time between 10ms and 31d after the slash"),
        ("1/32d", "write a time between 10ms and 31d after the slash"),
    ],
)
def test_a_rate_out_of_bounds_is_told_which_bound(written: str, instead: str) -> None:
    with pytest.raises(BadOption, match=f"^{re.escape(f'rate={written!r} is out of bounds: {instead}')}$"):
        read(rate=written)


@pytest.mark.parametrize("option", ["key_concurrency", "global_concurrency"])
@pytest.mark.parametrize("written", [0, -1, True, 2.0, "3", 1_000_001])
def test_a_number_at_once_is_a_whole_one(option: str, written: Any) -> None:
    with pytest.raises(BadOption, match=f"^{re.escape(f'{option}={written!r} {NO_NUMBER}')}$"):
        read(**{option: written})


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"ordered": 1}, "ordered=1 must be True or False"),
        ({"ordered": "yes"}, "ordered='yes' must be True or False"),
        (
            {"ordered": True, "on_failure": "skipp"},
            "on_failure='skipp' is not one of 'block', 'skip'. Did you mean 'skip'?",
        ),
        (
            {"on_failure": "skip"},
            "on_failure='skip' is for ordered consumers, and mail has no order: add ordered=True",
        ),
        (
            {"ordered": True, "key_concurrency": 2},
            "mail has ordered=True, which is one at a time under a key, and key_concurrency=2: leave one of them out",
        ),
        (
            {"key_concurrency": 5, "global_concurrency": 2},
            "mail has key_concurrency=5, which its global_concurrency=2 never lets it reach: lower the first or",
        ),
        (
            {"key_rate": "6/1m", "rate": "5/60s"},
            "mail has key_rate='6/1m', which its rate='5/1m' never lets it reach: lower the first or raise the second",
        ),
        (
            {"key_rate": "6/1m", "rate": "5/1h"},
            "mail has key_rate='6/1m', which its rate='5/1h' never lets it reach: lower the first or raise the second",
        ),
    ],
)
def test_what_does_not_go_together_is_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(BadOption, match=f"^{re.escape(said)}"):
        read(**options)


def test_what_may_be_reached_goes_together() -> None:
    assert read(ordered=True, key_concurrency=1) == Limits(ordered=True, key_concurrency=1)
    assert read(key_concurrency=2, global_concurrency=2) == Limits(key_concurrency=2, global_concurrency=2)
    assert read(key_rate="6/1h", rate="5/1m") == Limits(key_rate=Rate(6, 60 * MINUTE), rate=Rate(5, MINUTE))


def test_no_limits_are_none() -> None:
    assert read() is None
    assert read(ordered=False) is None


@pytest.mark.parametrize("options", [{"ordered": True}, {"key_concurrency": 1}, {"key_rate": "1/1m"}])
def test_what_recurs_has_no_keys_to_go_by(options: dict[str, Any]) -> None:
    app = Mainspring("memory://")
    [option] = options

    with pytest.raises(BadOption, match=f"tick has {option}=, which goes by the key of a message, .* overlap= sets"):

        @app.recurring("* * * * *", **options)
        async def tick() -> None: ...


def test_what_recurs_may_have_the_limits_of_a_whole_group() -> None:
    app = Mainspring("memory://")

    @app.recurring("* * * * *", global_concurrency=2, rate="5/1h")
    async def tick() -> None: ...

    assert read(keyless=True, global_concurrency=2) == Limits(global_concurrency=2)


@pytest.mark.parametrize(
    ("written", "meant"),
    [("order", "ordered"), ("key_concurency", "key_concurrency"), ("on_fail", "on_failure"), ("rates", "rate")],
)
def test_a_near_name_is_suggested(written: str, meant: str) -> None:
    app = Mainspring("memory://")
    options: Any = {written: True}

    with pytest.raises(BadOption, match=f"has no option '{written}'. Did you mean '{meant}'"):
        app.consumer("orders", **options)


def test_none_is_the_same_as_leaving_it_out() -> None:
    app = Mainspring("memory://")

    @app.consumer("orders", ordered=None, on_failure=None, key_concurrency=None, rate=None)
    async def mail(value: Any) -> None: ...

    assert app._code.consumers.orders._groups == {}


def test_limits_are_shown_as_they_are_written() -> None:
    assert shown_limits(None) == {}
    assert shown_limits(Limits(ordered=True)) == {"ordered": "block"}
    assert shown_limits(
        Limits(
            ordered=True,
            on_failure="skip",
            key_concurrency=1,
            global_concurrency=7,
            rate=Rate(100, 90 * MINUTE),
            key_rate=Rate(5, timedelta(milliseconds=1500)),
        )
    ) == {
        "ordered": "skip",
        "key_concurrency": "1",
        "global_concurrency": "7",
        "rate": "100/1h30m",
        "key_rate": "5/1s500ms",
    }


class Shop:
    """An app with an ordered group, one that has limits but no order, and what their handlers were told."""

    def __init__(self) -> None:
        self.app = app = Mainspring("memory://", namespace="test")
        self.refused: list[str] = []

        @app.consumer("orders.*", group="ledger", ordered=True)
        async def book(value: Any) -> None: ...

        @app.consumer("news", key_concurrency=1)
        async def mail(value: Any) -> None: ...

        @app.consumer("go")
        async def go(value: Any, ctx: Context) -> None:
            await ctx.publish("orders.placed", 1, delay="1s")
            try:
                await ctx.publish("orders.placed", 1, key="k", delay="1s")
            except BadOption as error:
                self.refused.append(str(error))

        self.book = book


@pytest.fixture
async def shop() -> AsyncIterator[Shop]:
    shop = Shop()
    async with shop.app:
        await shop.app.declare()
        yield shop


def refusal(call: str) -> str:
    return (
        f"^{re.escape(call)} with key='k' is for later, and consumer 'ledger' is ordered: all that is published under "
        "this key afterwards would wait for it. Leave out the key, or delay=, at= or spread=, or publish it to a topic "
        "of its own$"
    )


async def test_what_is_for_later_is_refused_under_a_key_of_an_ordered_consumer(shop: Shop) -> None:
    app, at = shop.app, datetime(2100, 1, 1, tzinfo=UTC)
    pairs = [("orders.placed", 1), ("orders.placed", 2)]

    with pytest.raises(BadOption, match=refusal("publish(…)")):
        await app.publish("orders.placed", 1, key="k", delay="1s")
    with pytest.raises(BadOption, match=refusal("publish(…)")):
        await app.publish("orders.placed", 1, key="k", at=at)
    with pytest.raises(BadOption, match=refusal("ledger.send(…)")):
        await shop.book.send(1, key="k", delay="1s")
    with pytest.raises(BadOption, match=refusal("publish_many(…)")):
        await app.publish_many(pairs, key="k", delay="1s")
    with pytest.raises(BadOption, match=refusal("publish_many(…, spread=…)")):
        await app.publish_many(pairs, key="k", spread="1m")


async def test_what_waits_for_nobody_may_be_for_later(shop: Shop) -> None:
    app = shop.app
    pairs = [("orders.placed", 1), ("orders.placed", 2)]

    receipts = [
        await app.publish("orders.placed", 1, key="k"),
        await app.publish("orders.placed", 1, key="k", delay="0s"),
        await app.publish("orders.placed", 1, delay="1s"),
        await app.publish("news", 1, key="k", delay="1s"),
        await app.publish("of.nobody", 1, key="k", delay="1s"),
        await shop.book.send(1, delay="1s"),
        *await app.publish_many(pairs, spread="1m"),
        *await app.publish_many(pairs, key="k"),
    ]

    assert {each.status for each in receipts} == {"stored"}


async def test_a_handler_is_refused_what_its_app_is(shop: Shop) -> None:
    async with shop.app.testing() as kit:
        await shop.app.publish("go", 1)
        await kit.drain()

    [said] = shop.refused
    assert re.match(refusal("ctx.publish(…)"), said)


def test_blocking_callers_are_refused_alike() -> None:
    shop = Shop()
    sync = shop.app.sync

    with pytest.raises(BadOption, match=refusal("publish(…)")):
        sync.publish("orders.placed", 1, key="k", delay="1s")
    with pytest.raises(BadOption, match=refusal("ledger.send(…)")):
        shop.book.sync.send(1, key="k", delay="1s")
    with pytest.raises(BadOption, match=refusal("publish_many(…, spread=…)")):
        sync.publish_many([("orders.placed", 1), ("orders.placed", 2)], key="k", spread="1m")
