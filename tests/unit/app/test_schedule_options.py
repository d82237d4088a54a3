"""The options of a schedule's runs: read alike wherever they are given, and obeyed whichever consumer it uses."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mainspring import (
    Bury,
    Consumer,
    Context,
    Mainspring,
    Retry,
    Testing,
    errors,
    every,
    exponential,
    intervals,
)
from mainspring.app.options import Setting
from mainspring.model.schedule import Timesheet
from tests.unit.app.steered import storage_of

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


class Shop:
    """An app whose consumers note what they get, and fail when they are told to."""

    def __init__(self, **options: Any) -> None:
        self.app = Mainspring("memory://", name="shop", **options)
        self.seen: list[Context] = []
        self.followed: list[tuple[str, object]] = []
        self.fails = False

        @self.app.consumer("mail", group="mailer")
        async def mail(to: str | None, ctx: Context) -> object:
            self.seen.append(ctx)
            return Retry(None, "the server is down") if self.fails else None

        @self.app.consumer("mail.done")
        async def praise(what: str | None) -> None:
            self.followed.append(("praise", what))

        @self.app.consumer("mail.failed")
        async def blame(what: str | None) -> None:
            self.followed.append(("blame", what))

        self.mail, self.praise, self.blame = mail, praise, blame


@pytest.fixture
def shop() -> Shop:
    return Shop()


@pytest.fixture
def kit(shop: Shop) -> Iterator[Testing]:
    with shop.app.testing(start=NOON) as kit:
        yield kit


async def stored(shop: Shop) -> Timesheet:
    return await (await storage_of(shop.app)).timetable.read()


@pytest.mark.parametrize(
    ("option", "value", "stored_as"),
    [
        ("retry", "none", "none"),
        ("retry", "consumer", "consumer"),
        ("retry", "5s, 1m", {"kind": "intervals", "waits": [5.0, 60.0], "jitter": 0.0}),
        ("retry", intervals(1), {"kind": "intervals", "waits": [1.0], "jitter": 0.0}),
        ("timeout", "90s", 90.0),
        ("timeout", "none", "none"),
        ("headers", {"a": "b"}, {"a": "b"}),
        ("headers", {}, {}),
        ("key", "k", "k"),
        ("key", "", None),
        ("correlation_id", "c", "c"),
        ("priority", "low", 3),
        ("dead", "all", "all"),
        ("then", "", None),
    ],
)
async def test_every_option_is_stored_by_put_and_alter_and_configuration(
    shop: Shop, kit: Testing, option: str, value: Any, stored_as: object
) -> None:
    options: dict[str, Any] = {option: value}
    schedules = shop.app.schedules

    await schedules.put("hourly", every("1h"), shop.mail, **options)
    await schedules.put("plain", every("1h"), shop.mail)
    await schedules.alter("plain", **options)

    rows = {row.name: row for row in (await stored(shop)).schedules}
    assert rows["hourly"].definition[option] == stored_as
    assert rows["plain"].edits == {option: stored_as}
    if not isinstance(value, str | dict):
        return
    recurrences = shop.app._code.registry.recurrences
    recurrences._settings = {"nightly": Setting({option: value}, "mainspring.toml:3")}
    shop.app.recurring(every("1d"), name="nightly")(shop.mail)
    assert recurrences.declared()["nightly"].overrides == {option: stored_as}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"retry": "sometimes"}, "retry: 'sometimes' is no retry policy: write one of 'messages'"),
        ({"retry": exponential(retry_on=(OSError,))}, "name exception types, .* Give it to the consumer itself"),
        ({"timeout": "soon"}, "timeout='soon' is not a duration"),
        ({"timeout": "0s"}, "timeout='0s' is out of bounds"),
        ({"headers": {"mainspring-retry": "none"}}, "which the library keeps for itself"),
        ({"dead": "some"}, "dead='some' is not one of 'latest', 'all'"),
        ({"then": "nobody"}, "'nobody' is no consumer of this app"),
        ({"then": {"group": "mailer"}}, r"then=\{'group': 'mailer'\} must be \{'consumer': 'mail', 'payload': …\}"),
        ({"failed": (print, 7)}, "is no consumer of this app: pass the function"),
        ({"only_if": "idle"}, "only_if='idle' is no condition"),
        ({"only_if": lambda: True}, "belongs to @app.recurring"),
    ],
)
def test_what_cannot_be_meant_is_told(shop: Shop, kit: Testing, options: Any, message: str) -> None:
    with pytest.raises(errors.BadOption, match=message):
        shop.app.sync.schedules.put("hourly", every("1h"), shop.mail, **options)


@pytest.mark.parametrize("option", [{"then": "mailer"}, {"failed": "mailer"}, {"only_if": "queue empty"}])
def test_what_is_about_one_group_is_refused_where_occurrences_go_to_a_topic(
    shop: Shop, kit: Testing, option: Any
) -> None:
    with pytest.raises(errors.BadOption, match="go to every group of 'mail'"):
        shop.app.sync.schedules.put("hourly", every("1h"), topic="mail", **option)


async def test_what_it_sends_reaches_the_handler(shop: Shop, kit: Testing) -> None:
    await shop.app.schedules.put(
        "hourly", every("1h"), shop.mail, "ada", headers={"a": "b"}, key="k", correlation_id="c", priority="high"
    )

    await kit.advance(HOUR)

    (ctx,) = shop.seen
    assert (dict(ctx.headers), ctx.key, ctx.correlation_id) == ({"a": "b"}, "k", "c")


@pytest.mark.parametrize(
    ("schedule", "consumer", "expected"),
    [
        ({}, {}, 6),  # 5, 10, 20, 30 and 60 seconds
        ({"retry": "none"}, {}, 1),
        ({"retry": "1s, 1s"}, {}, 3),
        ({"retry": "consumer"}, {}, 15),
        ({}, {"retry": "outbox"}, 5),
        ({}, {"retry": "1s, 1s, 1s"}, 4),
        ({"retry": "none"}, {"retry": "outbox"}, 1),
    ],
)
async def test_its_runs_are_retried_as_the_schedule_says_else_as_recurring_jobs_are(
    schedule: Any, consumer: Any, expected: int
) -> None:
    app = Mainspring("memory://", name="shop")
    attempts: list[int] = []

    @app.consumer("mail", **consumer)
    async def mail(to: str | None, ctx: Context) -> object:
        attempts.append(ctx.attempt)
        return Retry(None, "the server is down")

    with app.testing(start=NOON) as kit:
        await app.schedules.once("hourly", NOON + HOUR, mail, **schedule)
        with kit.expect_dead(mail):
            await kit.advance(2 * DAY)

    assert attempts == list(range(1, expected + 1))


async def test_messages_of_the_same_consumer_are_retried_as_before(shop: Shop, kit: Testing) -> None:
    shop.fails = True

    await shop.mail.send("ada")
    with kit.expect_dead(shop.mail):
        await kit.advance(DAY)

    assert len(shop.seen) == 15


async def test_a_topic_keeps_the_policies_of_its_consumers(shop: Shop, kit: Testing) -> None:
    shop.fails = True

    await shop.app.schedules.put("daily", every("1d"), topic="mail", start=NOON + HOUR, end=NOON + 2 * HOUR)
    with kit.expect_dead(shop.mail):
        await kit.advance(DAY)

    assert len(shop.seen) == 15


async def test_two_schedules_of_one_function_have_policies_of_their_own() -> None:
    app = Mainspring("memory://", name="shop")
    attempts: list[str | None] = []

    @app.recurring(every("1d"), name="brave", retry="1s, 1s", start=NOON + HOUR)
    @app.recurring(every("1d"), name="shy", retry="none", start=NOON + HOUR)
    async def sweep(ctx: Context) -> object:
        attempts.append(ctx.schedule)
        return Retry(None, "it is wet")

    with app.testing(start=NOON) as kit, kit.expect_dead(sweep):
        await kit.advance(2 * HOUR)

    assert sorted(map(str, attempts)) == ["brave", "brave", "brave", "shy"]


async def test_what_the_consumer_below_has_is_still_given_there() -> None:
    app = Mainspring("memory://")
    with pytest.raises(errors.BadOption, match="is registered by the decorator below: give concurrency= there"):

        @app.recurring(every("1d"), retry="none", concurrency=3)
        @app.consumer("mail")
        async def mail(to: str | None) -> None: ...


@pytest.mark.parametrize(("fails", "expected"), [(False, ("praise", "well")), (True, ("blame", None))])
async def test_what_follows_a_run_follows_it_once(shop: Shop, kit: Testing, fails: bool, expected: object) -> None:
    shop.fails = fails
    await shop.app.schedules.put(
        "daily",
        every("1d"),
        shop.mail,
        start=NOON + HOUR,
        then=(shop.praise, "well"),
        failed="blame",
        correlation_id="c",
    )

    if fails:
        with kit.expect_dead(shop.mail):
            await kit.advance(2 * HOUR)
    else:
        await kit.advance(2 * HOUR)

    assert shop.followed == [expected]
    assert {run.correlation_id for run in kit.runs if run.group in ("praise", "blame")} == {"c"}


async def test_what_follows_also_follows_a_run_that_was_asked_for(shop: Shop, kit: Testing) -> None:
    await shop.app.schedules.put("daily", every("1d"), shop.mail, start=NOON + HOUR, then=shop.praise)

    await shop.app.schedules.trigger("daily")
    await shop.app.schedules.backfill("daily", NOON + HOUR, NOON + HOUR + DAY)
    await kit.drain()

    assert shop.followed == [("praise", None)] * 3


@pytest.mark.parametrize(
    ("options", "given", "expected"),
    [
        ({}, {}, timedelta(hours=12)),
        ({"recurring_timeout": "1h"}, {}, timedelta(hours=1)),
        ({"recurring_timeout": None}, {}, None),
        ({"recurring_timeout": "none"}, {}, None),
        ({"timeout": "1m"}, {}, timedelta(minutes=1)),
        ({"timeout": "1m", "recurring_timeout": "1h"}, {}, timedelta(hours=1)),
        ({}, {"timeout": "5s"}, timedelta(seconds=5)),
        ({}, {"timeout": "none"}, None),
    ],
)
def test_a_recurring_function_has_a_limit_of_its_own(options: Any, given: Any, expected: timedelta | None) -> None:
    app = Mainspring("memory://", **options)

    @app.recurring(every("1d"), **given)
    async def sweep() -> None: ...

    (registration,) = app._code.consumers
    assert registration.timeout == expected


async def test_a_run_that_hangs_is_ended_and_its_schedule_goes_on() -> None:
    app = Mainspring("memory://", name="shop")
    began: list[datetime] = []

    @app.recurring("0 0 * * *", retry="none")
    async def sweep(ctx: Context) -> None:
        assert ctx.scheduled_for is not None
        began.append(ctx.scheduled_for)
        if len(began) == 1:
            clock.elapse("13h")
            await asyncio.Event().wait()

    with app.testing(start=NOON) as clock, clock.expect_dead(sweep, error="timeout"):
        await clock.advance(2 * DAY)

    assert len(began) == 2


@pytest.mark.parametrize(("limit", "died"), [("1m", True), ("none", False), (None, True)])
async def test_its_own_limit_is_used_whichever_consumer_it_has(limit: str | None, died: bool) -> None:
    app = Mainspring("memory://", name="shop")
    ended: list[str] = []

    @app.consumer("mail", timeout="10m")
    async def mail(to: str | None) -> None:
        clock.elapse("5m" if limit == "1m" else "15m")
        await asyncio.sleep(0)
        ended.append("done")

    with app.testing(start=NOON) as clock:
        await app.schedules.once("later", NOON + HOUR, mail, retry="none", timeout=limit)
        if died:
            with clock.expect_dead(mail, error="timeout"):
                await clock.advance(DAY)
        else:
            await clock.advance(DAY)

    assert ended == ([] if died else ["done"])


@pytest.mark.parametrize(
    ("app_option", "schedule", "expected"),
    [({}, {}, 1), ({"dead": "all"}, {}, 3), ({}, {"dead": "all"}, 3), ({"dead": "all"}, {"dead": "latest"}, 1)],
)
async def test_of_a_job_that_always_fails_one_dead_letter_is_kept(
    app_option: Any, schedule: Any, expected: int
) -> None:
    app = Mainspring("memory://", name="shop", **app_option)

    @app.recurring(every("1h"), retry="none", **schedule)
    async def sweep() -> object:
        return Bury("it is wet")

    with app.testing(start=NOON) as kit, kit.expect_dead(sweep):
        await kit.advance(3 * HOUR)
        found = await app.dead.list()

    assert len(found) == expected
    assert found[0].repeats == (2 if expected == 1 else 0)


@pytest.mark.parametrize(
    ("payloads", "options", "expected"),
    [
        (("invoice 1", "invoice 2"), {}, [("invoice 1", 0), ("invoice 2", 0)]),
        (("again", "again"), {}, [("again", 0), ("again", 0)]),
        (("again", "again"), {"dead": "latest"}, [("again", 1)]),
        (("invoice 1", "invoice 2"), {"dead": "latest"}, [("invoice 1", 0), ("invoice 2", 0)]),
    ],
)
async def test_one_time_jobs_under_one_name_keep_their_dead_letters(
    payloads: tuple[str, ...], options: Any, expected: list[tuple[str, int]]
) -> None:
    app = Mainspring("memory://", name="shop")

    @app.consumer("invoices.due")
    async def charge(invoice: str) -> object:
        return Bury(f"declined: {invoice}")

    with app.testing(start=NOON) as kit, kit.expect_dead(charge):
        for hour, payload in enumerate(payloads, start=1):
            await app.schedules.once("charge-ada", NOON + hour * HOUR, charge, payload, **options)
            await kit.advance(HOUR)
        found = await app.dead.list()

    assert sorted(((each.error or "").removeprefix("declined: "), each.repeats) for each in found) == expected


class Sorted(Consumer[str | None]):
    """A consumer that is a class."""

    async def consume(self, message: str | None) -> None: ...


@pytest.mark.parametrize("kind", ["async", "plain", "batch", "class", "recurring", "function", "group", "name"])
async def test_once_takes_any_consumer_by_itself_or_by_name(kind: str) -> None:
    app = Mainspring("memory://", name="shop")

    @app.consumer("a", group="letters")
    async def mail(to: str | None) -> None: ...

    @app.consumer("b")
    def file(to: str | None) -> None: ...

    @app.consumer("c", batch=10, linger="0s")
    async def pack(these: list[str | None]) -> None: ...

    @app.recurring(every("365d"))
    async def sweep() -> None: ...

    app.consumer("d", group="sorted")(Sorted)
    wanted: dict[str, tuple[object, str]] = {
        "async": (mail, "letters"),
        "plain": (file, "file"),
        "batch": (pack, "pack"),
        "class": (Sorted, "sorted"),
        "recurring": (sweep, "sweep"),
        "function": (mail.function, "letters"),
        "group": ("letters", "letters"),
        "name": ("mail", "letters"),
    }
    consumer, group = wanted[kind]

    with app.testing(start=NOON) as kit:
        await app.schedules.once("later", NOON + HOUR, consumer, timeout="1m")
        await kit.advance(HOUR)

        assert [run.group for run in kit.runs] == [group]


def test_once_says_what_is_wrong_with_what_is_no_consumer(shop: Shop, kit: Testing) -> None:
    once = shop.app.sync.schedules.once
    shop.app.queue("photos")
    other = Mainspring("memory://", name="other")

    @other.consumer("x")
    async def foreign() -> None: ...

    for consumer, message in [
        ("photos", r"'photos' is app.queue\('photos'\), which has no handler"),
        (foreign, "foreign is a consumer of another app"),
        ("mailr", r"Did you mean 'mailer'\? There are: mailer, praise, blame"),
        (7, "7 is no consumer of this app: pass the function or class"),
    ]:
        with pytest.raises(errors.BadOption, match=message):
            once("later", NOON + HOUR, consumer)
    with pytest.raises(errors.BadOption, match=r"which has none: import the modules .* --app shop:app"):
        Mainspring("memory://").sync.schedules.once("later", NOON + HOUR, "mailer")
