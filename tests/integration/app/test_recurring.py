"""``@app.recurring``: what it refuses at import, and what a handler learns when a worker runs it."""

from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from mainspring import Consumer, Context, Mainspring, errors, every, intervals
from mainspring.timing.cron import Cron
from tests.integration.app.shop import Seen, eventually

TENTH = every("100ms")


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def app(request: pytest.FixtureRequest, tmp_path: Path, postgres_url: str, postgres_schema: str) -> Mainspring:
    urls = {"memory": "memory://", "sqlite": f"sqlite:///{tmp_path}/shop.db", "postgresql": postgres_url}
    return Mainspring(urls[request.param], name="shop", schema=postgres_schema, auto_migrate=True, idle_poll="5m")


def handler(ctx: Context) -> None: ...


@pytest.mark.parametrize(
    ("rhythm", "options", "message"),
    [
        (handler, {}, r"@app.recurring has no parentheses: write @app.recurring\('0 9 \* \* mon-fri'\)"),
        ("0 25 * * *", {}, "25"),
        ("every 1ms", {}, "too often"),
        (60, {}, "is no rhythm"),
        (None, {}, r"@app.recurring\(rhythm, …\) needs a rhythm: '0 9 \* \* mon-fri' or every\('90s'\)"),
        ("0 0 30 2 *", {}, r"@app.recurring handler is never due: '0 0 30 2 \*' matches no date"),
        ("0 9 * * *", {"timezome": "UTC"}, r"@app.recurring\(…\) has no option 'timezome'. Did you mean 'timezone'\?"),
        ("0 9 * * *", {"timezone": "Europe/Berlim"}, r"Did you mean 'Europe/Berlin'\?"),
        ("0 9 * * *", {"topic": "a", "mode": "direct"}, "topic= is for mode='publish'"),
        ("0 9 * * *", {"mode": "publish"}, "mode='publish' needs topic=…, .* or a name=… that is it"),
        ("0 9 * * *", {"mode": "broadcast"}, "mode='broadcast' is not one of 'direct', 'publish'"),
        ("0 9 * * *", {"name": "daily report"}, "schedule name 'daily report' has white space"),
        ("0 9 * * *", {"name": ""}, "a schedule name is 1 to 255 characters, not 0"),
        ("0 9 * * *", {"topic": "", "name": "daily"}, "a topic is 1 to 255 characters, not 0"),
        ("0 9 * * *", {"offline": 1}, "offline=1 must be True or False"),
        ("0 9 * * *", {"offline": True, "topic": "reports"}, "so remove mode='publish', cpu=True and transactional="),
        ("0 9 * * *", {"offline": True, "only_if": "queue empty"}, "handler: offline=True runs it without .* only_if="),
        ("0 9 * * *", {"topic": "reports.*"}, r"reports\.\*"),
        ("0 9 * * *", {"retry": 3}, "retry=3 is a number, not a policy"),
        (
            "0 9 * * *",
            {"start": datetime(2027, 1, 2, tzinfo=UTC), "end": datetime(2027, 1, 1, tzinfo=UTC)},
            "is not after",
        ),
    ],
)
def test_a_mistake_is_told_where_it_is_written(rhythm: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Mainspring("memory://").recurring(rhythm, **options)(handler)


def test_two_of_one_name_are_told_apart() -> None:
    app = Mainspring("memory://")
    app.recurring("0 9 * * *", name="daily")(handler)

    with pytest.raises(errors.Conflict, match="the schedule 'daily' already exists, of handler: give this one another"):

        @app.recurring("0 9 * * *", name="daily")
        def other(ctx: Context) -> None: ...


def test_one_function_may_have_several_schedules_and_be_a_consumer_too() -> None:
    app = Mainspring("memory://")

    @app.recurring("0 18 * * fri", name="weekly")
    @app.recurring("0 9 * * *", name="daily")
    @app.consumer("reports", retry="messages")
    async def report(what: dict[str, int] | None, ctx: Context) -> None: ...

    with app.testing(start=datetime(2026, 6, 5, tzinfo=UTC)) as kit:
        app.sync.publish("reports", {"a": 1})
        kit.sync.advance("1d")

        assert [ran.schedule for ran in kit.delivered(report)] == [None, "daily", "weekly"]


def test_an_option_of_the_consumer_is_given_once() -> None:
    app = Mainspring("memory://")

    with pytest.raises(errors.BadOption, match=r"report is registered by the decorator below: give keep= there$"):

        @app.recurring("0 9 * * *", retry="messages", keep="all")
        @app.consumer("reports")
        async def report(ctx: Context) -> None: ...


@pytest.mark.parametrize("options", [{"topic": "reports"}, {"mode": "publish", "name": "reports"}])
def test_what_is_published_needs_a_function_of_its_own(options: dict[str, Any]) -> None:
    app = Mainspring("memory://")

    with pytest.raises(errors.BadOption) as refused:

        @app.recurring("0 9 * * *", **options)
        @app.consumer("reports")
        async def report(ctx: Context) -> None: ...

    assert str(refused.value).endswith(
        "report is registered by the decorator below, and so an occurrence goes to it alone: leave out mode= and "
        "topic=. To let every group of 'reports' receive it, write @app.recurring(…, topic='reports') above a "
        "function of its own, which receives it too"
    )


def test_a_consumer_above_what_recurs_would_lose_its_options() -> None:
    app = Mainspring("memory://")

    with pytest.raises(errors.BadOption, match=r"write @app.recurring\(…\) above @app.consumer\(…\)"):

        @app.consumer("reports")
        @app.recurring("0 9 * * *", timeout="5s")
        async def report(ctx: Context) -> None: ...


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {},
            (
                r"^count: \$: expected int, got null\. It must be int: give payload=\{…\}, or drop the parameter "
                r"'number' of .*count$"
            ),
        ),
        ({"payload": "7"}, r"^count: \$: expected int, got str\. It must be int: give @app\.recurring of .* another"),
        ({"payload": "7", "topic": "counts"}, r"^counts: \$: expected int, got str\. It must be int"),
    ],
)
def test_a_payload_that_its_handler_could_not_read_is_told_at_once(options: dict[str, Any], message: str) -> None:
    app = Mainspring("memory://")

    with pytest.raises(errors.BadPayload, match=message):

        @app.recurring("0 9 * * *", **options)
        async def count(number: int) -> None: ...


async def test_what_recurs_has_a_policy_and_a_limit_of_its_own(app: Mainspring) -> None:
    @app.recurring("0 9 * * *")
    async def plain() -> None: ...

    @app.recurring("0 9 * * *", retry="messages", timeout="5m")
    async def other() -> None: ...

    await app.declare()
    async with app:
        options = {each.name: each.options for each in await app.groups.list()}

    assert (options["plain"]["retry"], options["plain"]["timeout"]) == ("recurring", "12h")
    assert (options["other"]["retry"], options["other"]["timeout"]) == ("exponential", "5m")


def test_a_limit_that_the_app_was_given_is_for_what_recurs_too() -> None:
    app = Mainspring("memory://", timeout="7m")

    @app.recurring("0 9 * * *")
    async def plain() -> None: ...

    (declared,) = app.sync.declare()
    assert declared.options["timeout"] == "7m"


def test_what_keeps_failing_is_given_up_when_the_next_occurrence_comes() -> None:
    app = Mainspring("memory://")

    @app.recurring("*/20 * * * * *", overlap="allow")
    async def fails() -> None:
        raise ValueError

    with app.testing(start=datetime(2026, 6, 5, tzinfo=UTC)) as kit:
        with kit.expect_dead(fails) as dead:
            kit.sync.advance("39s")

        attempts = [(ran.attempt, ran.outcome) for ran in kit.runs]
        # At 0:20, 0:25 and 0:35; the next try would be at 0:55, after the next occurrence.
        assert attempts == [(1, "failed"), (2, "failed"), (3, "dead")]
        assert len(dead) == 1


def test_an_end_that_has_passed_stops_no_import() -> None:
    app = Mainspring("memory://")

    @app.recurring("0 9 * * *", end=datetime(2020, 12, 31, tzinfo=UTC))
    async def campaign() -> None: ...

    with app.testing() as kit:
        assert kit.sync.advance("7d") == []
        view = app.sync.schedules.get("campaign")
        assert view is not None
        assert view.state == "finished"
    with app.testing(start=datetime(2020, 12, 30, tzinfo=UTC)) as kit:
        assert len(kit.sync.advance("7d")) == 1


async def test_nobody_registers_a_schedule_while_a_worker_runs() -> None:
    app = Mainspring("memory://")
    app.recurring("0 9 * * *")(handler)

    async with app.worker():
        with pytest.raises(errors.Misuse, match="a schedule was registered while a worker runs"):
            app.recurring("0 10 * * *", name="late")(handler)


async def test_a_handler_learns_what_it_is_for(app: Mainspring) -> None:
    seen = Seen[Context]()

    @app.recurring(TENTH, payload={"kind": "pulse"}, name="pulse", group="pulses")
    async def pulse(what: dict[str, str], ctx: Context) -> None:
        assert what == {"kind": "pulse"}
        seen.add(ctx)

    async with app.worker():
        first, second, *_ = await seen.count(2)

    assert (first.schedule, first.cron, first.is_recurring) == ("pulse", "every 100ms", True)
    assert (first.topic, first.group, first.attempt) == ("pulse", "pulses", 1)
    assert first.scheduled_for is not None
    assert second.scheduled_for is not None
    assert first.scheduled_for.microsecond % 100_000 == 0
    assert second.scheduled_for - first.scheduled_for >= timedelta(milliseconds=100)
    assert first.message_id != second.message_id


async def test_other_messages_are_of_no_schedule(app: Mainspring) -> None:
    seen = Seen[Context]()

    @app.consumer("a")
    async def plain(ctx: Context) -> None:
        seen.add(ctx)

    async with app.worker():
        await app.publish("a", None)
        (ctx,) = await seen.count(1)

    assert (ctx.schedule, ctx.cron, ctx.is_recurring) == (None, None, False)


async def test_published_occurrences_reach_every_group_of_the_topic(app: Mainspring) -> None:
    seen = Seen[tuple[str, datetime]]()

    @app.recurring(TENTH, topic="pulse.beat")
    async def pulse(ctx: Context) -> None:
        assert ctx.topic == "pulse.beat"
        assert ctx.scheduled_for is not None
        seen.add((ctx.group, ctx.scheduled_for))

    @app.consumer("pulse.*")
    def count(ctx: Context) -> None:
        assert ctx.schedule == "pulse"
        assert ctx.scheduled_for is not None
        seen.add((ctx.group, ctx.scheduled_for))

    async with app.worker():
        first = (await seen.count(2))[:2]

    assert {group for group, _ in first} == {"pulse", "count"}
    assert len({at for _, at in first}) == 1  # the next one waits until both are done with this


async def test_a_failed_occurrence_is_tried_again_and_stays_the_same(app: Mainspring) -> None:
    seen = Seen[Context]()

    @app.recurring(TENTH, retry=intervals("10ms"), keep="all")
    async def flaky(ctx: Context) -> None:
        seen.add(ctx)
        if len(seen.items) == 1:
            raise ConnectionError("down")

    async with app.worker():
        first, second, *_ = await seen.count(3)
        runs = await app.schedules.runs("flaky")

    assert (first.message_id, first.scheduled_for) == (second.message_id, second.scheduled_for)
    assert (first.attempt, second.attempt) == (1, 2)
    assert [run.status for run in reversed(runs)][:2] == ["failed", "done"]
    assert {run.source for run in runs} == {"schedule"}


async def test_a_class_and_days_told_by_code_are_scheduled_too(app: Mainspring) -> None:
    seen = Seen[str]()

    @app.recurring(TENTH, holidays=lambda day: day == date(1999, 1, 1), group="classes")
    class Sweep(Consumer[None]):
        async def consume(self, ctx: Context) -> None:
            seen.add(ctx.schedule or "")

    async with app.worker():
        assert (await seen.count(1))[0] == "classes"


async def test_a_worker_of_other_groups_lets_schedules_go_on_too(app: Mainspring) -> None:
    @app.recurring(Cron("* * * * * *"))
    async def every_second() -> None: ...

    @app.consumer("a")
    async def other() -> None: ...

    async with app.worker(groups=["other"]):
        await eventually(lambda: _fired(app, "every_second"))


async def _fired(app: Mainspring, name: str) -> bool:
    view = await app.schedules.get(name)
    return view is not None and view.fired > 0
