"""Words of other libraries: each is rejected with what to write here instead."""

import asyncio
import inspect
import re
import tomllib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mainspring import (
    AppOptions,
    Cancel,
    ConsumerOptions,
    Context,
    Mainspring,
    PublishOptions,
    RecurringOptions,
    ScheduleOptions,
    SendOptions,
    Snooze,
    exponential,
    intervals,
    proportional,
    vocabulary,
)
from mainspring.app.options import refuse_unknown
from mainspring.app.queue.options import QueueOptions
from mainspring.app.queue.queue import Queue
from mainspring.app.schedule.recurring import OVERRIDABLE
from mainspring.cli.commands import _commands as commands_of_the_shell
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
        (
            lambda **o: app.recurring("0 9 * * *", **o),
            "misfire_grace_time",
            1,
            "misfire_after='5m', and misfire='skip'",
        ),
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
    [
        ("cron", "write rhythm = '0 9 * * mon-fri', or 'every 90s'"),
        ("tz", "write timezone = 'Europe/Berlin'"),
        ("max_retries", "write retry = { kind = 'exponential', attempts = 5 }, or waits, retry = '5s, 1m'"),
    ],
)
def test_a_foreign_word_in_the_configuration_of_a_schedule_is_answered_as_it_is_written_there(
    word: str, advice: str
) -> None:
    with pytest.raises(BadOption, match=re.escape(f"a schedule in the configuration has no option {word!r}: {advice}")):
        refuse_unknown([word], OVERRIDABLE, "a schedule in the configuration", vocabulary.toml_advice)


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
        (app.sync, "enqueue", "write app.sync.publish('orders.placed', payload), or consumer.sync.send(payload)"),
        (app.sync, "lock", "write with app.sync.leases.hold('name')"),
        (send_receipt, "delay", "there is no send_receipt.delay: write await send_receipt.send(payload)"),
        (send_receipt, "apply_async", "write await send_receipt.send(payload, delay='10s')"),
        (send_receipt, "s", "write await send_receipt.send(payload, then=another_consumer)"),
        (send_receipt, "delay", "or send_receipt.sync.send(payload) in blocking code"),
        (send_receipt.sync, "delay", "there is no send_receipt.delay: write send_receipt.sync.send(payload)"),
    ],
)
def test_a_foreign_method_is_rejected_with_ours(thing: object, word: str, advice: str) -> None:
    with pytest.raises(AttributeError) as raised:
        getattr(thing, word)

    assert advice in str(raised.value)


def test_a_word_that_no_library_has_is_missing_as_always() -> None:
    assert not hasattr(app, "colour")
    assert not hasattr(send_receipt, "colour")


ACCEPTS: dict[str, set[str]] = {
    "@app.consumer(…)": set(ConsumerOptions.__annotations__),
    "publish(…) or send(…)": set(PublishOptions.__annotations__),
    "consumer.send(…)": set(SendOptions.__annotations__),
    "@app.recurring(…)": set(RecurringOptions.__annotations__),
    "schedules.put(…)": {"payload", "topic", *ScheduleOptions.__annotations__},
    "app.schedules.alter(…)": {"rhythm", *ScheduleOptions.__annotations__},
    "app.queue(…)": set(QueueOptions.__annotations__),
    "Mainspring(…)": set(AppOptions.__annotations__),
    "exponential(…)": set(inspect.signature(exponential).parameters),
    "intervals(…)": set(inspect.signature(intervals).parameters),
    "app.cancel(…)": set(inspect.signature(app.cancel).parameters),
    "app.testing(…)": set(inspect.signature(app.testing).parameters),
    "app.leases.hold(…)": set(inspect.signature(app.leases.hold).parameters),
    "app.dead.revive(…)": set(inspect.signature(app.dead.revive).parameters),
    "app.messages.list(…)": set(inspect.signature(app.messages.list).parameters),
    "queue.claim(…)": set(inspect.signature(Queue.claim).parameters),
}
WORDS = sorted({word for row in vocabulary._OPTIONS for word in row.words.split()})


@pytest.mark.parametrize("call", ACCEPTS)
def test_whatever_is_advised_is_accepted_by_the_call_or_by_the_one_that_is_named(call: str) -> None:
    for word in WORDS:
        if word in ACCEPTS[call]:
            continue
        advice = vocabulary.option_advice(word, ACCEPTS[call])
        assert advice is not None
        _, elsewhere, where = advice.rpartition(", in ")
        if (named := re.match(r"write (\w+)=", advice)) is not None:
            assert named[1] in ACCEPTS[where if elsewhere else call], (call, word, advice)


@pytest.mark.parametrize("word", WORDS)
def test_whatever_is_advised_for_a_file_can_be_written_there(word: str) -> None:
    advice = vocabulary.toml_advice(word, OVERRIDABLE)
    if advice is not None and advice.startswith("write "):
        written = re.split(r", (?:or|which|and|an) ", advice.removeprefix("write "))[0]
        (option,) = tomllib.loads(written)
        assert option in OVERRIDABLE


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: app.recurring(cron="0 9 * * *"), "the rhythm comes first: @app.recurring('0 9 * * mon-fri')"),
        (app.recurring, "@app.recurring(…) needs a rhythm"),
        (lambda: asyncio.run(app.schedules.alter("a", args=1)), "leave it out: the payload is given by @app.recurring"),
        (lambda: asyncio.run(app.schedules.alter("a", cron="x")), "write rhythm='0 9 * * mon-fri'"),
        (lambda: asyncio.run(app.schedules.put("a", "every 1h", send_receipt, args=1)), "write payload={'id': 7}"),
        (lambda: _published(timeout=3), "write timeout='30s', in @app.consumer(…)"),
        (lambda: app.queue("q", timeout=3), "write timeout='30s', in @app.consumer(…)"),
        (lambda: _published(retry=3), "in @app.consumer(…)"),
    ],
)
def test_a_word_is_answered_for_the_call_that_it_was_given_to(call: Callable[[], object], said: str) -> None:
    with pytest.raises(BadOption, match=re.escape(said)):
        call()


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


def _commands(app: Any, name: str = "") -> Iterator[tuple[str, set[str]]]:
    """Every command, with its options."""
    if app.default_command is not None:
        yield name, {each for argument in app.assemble_argument_collection() for each in argument.names}
    for word in app:
        if not word.startswith("-"):
            yield from _commands(app[word], f"{name} {word}".strip())


def test_whatever_is_advised_on_the_command_line_is_an_option_of_the_command() -> None:
    commands = dict(_commands(commands_of_the_shell()))
    assert "--processes" in commands["worker"]
    for command, options in commands.items():
        for flag in {word for row in vocabulary._FLAGS for word in row.words.split()} - options:
            advice = vocabulary.flag_advice(flag, options) or ""
            assert set(re.findall(r"write (--[a-z-]+)", advice)) <= options, (command, flag, advice)
