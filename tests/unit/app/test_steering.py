"""``app.schedules``: what each verb does to a schedule, and what it says to what cannot be meant."""

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from mainspring import Context, Mainspring, ScheduleView, Testing, errors, every
from mainspring.timing.cron import CronError

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
NEAR = r"^there is no schedule 'reprot'\. Did you mean 'report'\? `mainspring schedules list` shows all$"


@pytest.fixture
def app() -> Mainspring:
    app = Mainspring("memory://", name="shop")

    @app.recurring("0 * * * *", overlap="allow")
    async def report(what: object, ctx: Context) -> None: ...

    @app.consumer("mail", group="mailer")
    async def mail(to: str | None) -> None: ...

    return app


@pytest.fixture
def kit(app: Mainspring) -> Iterator[Testing]:
    with app.testing(start=NOON) as kit:
        yield kit


def view(app: Mainspring, name: str = "report") -> ScheduleView:
    found = app.sync.schedules.get(name)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda s: s.put("x", None, "mailer"), "needs a rhythm"),
        (lambda s: s.put("x", "0 9 * * *"), "the schedule 'x' needs a consumer, or topic=…, and not both"),
        (lambda s: s.put("x", "0 9 * * *", "mailer", topic="a"), "and not both"),
        (lambda s: s.put("x", "0 9 * * *", "mailr"), r"'mailr' is no consumer of this app\. Did you mean 'mailer'\?"),
        (lambda s: s.put("x", "0 9 * * *", print), "is no consumer of this app: pass the function or class below"),
        (lambda s: s.put("x", "0 9 * * *", "mailer", over="skip"), r"schedules.put\(…\) has no option 'over'"),
        (lambda s: s.put("x", "0 0 30 2 *", "mailer"), "the schedule 'x' is never due"),
        (lambda s: s.put("x", every("1h"), "mailer", end=NOON - HOUR), "is never due"),
        (lambda s: s.put("x y", every("1h"), "mailer"), "x y"),
        (lambda s: s.put("x", every("1h"), topic="mail.*"), r"mail\.\*"),
        (lambda s: s.put("x", every("1h"), "mailer", holidays=lambda _day: False), "belongs to @app.recurring"),
        (lambda s: s.put("report", every("1h"), "mailer"), "is defined by code: change it by schedules.alter"),
        (lambda s: s.once("x", NOON - HOUR, "mailer"), "has passed: give a later time, or past='run'"),
        (lambda s: s.once("x", NOON - HOUR, "mailer", past="skip"), "past='skip' is not one of 'raise', 'run'"),
        (lambda s: s.once("x", datetime(2031, 1, 1), "mailer"), "has no time zone"),  # noqa: DTZ001 - that is it
        (lambda s: s.once("report", NOON + HOUR, "mailer"), r"there is a schedule 'report' already, due by '0 \* "),
        (lambda s: s.alter("report"), r"schedules.alter\('report'\) changes nothing"),
        (lambda s: s.alter("report", reset=["rythm"]), r"reset= has no option 'rythm'. Did you mean 'rhythm'\?"),
        (lambda s: s.alter("report", jitter="soon"), "jitter='soon' is not a duration"),
        (lambda s: s.alter("report", "0 0 31 6 *"), "the schedule 'report' is never due"),
        (lambda s: s.alter("report", workdays=lambda _day: True), "belongs to @app.recurring"),
        (lambda s: s.delete("report"), "is in the code of this app, which would declare it again"),
        (lambda s: s.backfill("report", NOON, NOON), "is not after"),
        (lambda s: s.backfill("report", NOON - 2000 * HOUR, NOON), "has more than 1,000 occurrences"),
        (lambda s: s.next("report", 0), "n=0 must be a whole number from 1 to 1,000"),
        *[
            (lambda s, verb=verb: getattr(s, verb)("reprot"), NEAR)
            for verb in ("pause", "resume", "delete", "trigger", "next")
        ],
        (lambda s: s.alter("reprot", "0 9 * * *"), NEAR),
        (lambda s: s.backfill("reprot", NOON - HOUR, NOON), NEAR),
        (lambda s: s.between("reprot", NOON - HOUR, NOON), NEAR),
        (lambda s: s.pause("far"), r"^there is no schedule 'far'\. `mainspring schedules list` shows all$"),
    ],
)
def test_what_cannot_be_meant_is_told_and_changes_nothing(
    app: Mainspring, kit: Testing, call: Any, message: str
) -> None:
    before = app.sync.schedules.list()

    with pytest.raises(errors.BadOption, match=message):
        call(app.sync.schedules)

    assert app.sync.schedules.list() == before
    assert app.sync.audit() == []
    assert kit.pending == []


def test_a_schedule_that_was_made_at_run_time_is_suggested_too(app: Mainspring, kit: Testing) -> None:
    app.sync.schedules.put("newsletter", every("1h"), "mailer")

    with pytest.raises(
        errors.BadOption, match=r"there is no schedule 'newsleter'\. Did you mean 'newsletter'\?"
    ) as told:
        app.sync.schedules.pause("newsleter")
    assert type(told.value) is errors.BadOption


async def test_one_that_is_in_the_code_and_not_declared_yet_is_told_from_one_that_is_not_there(app: Mainspring) -> None:
    empty = Mainspring("memory://", name="shop")
    async with app, empty:
        for call in (app.schedules.pause("report"), app.schedules.next("report")):
            with pytest.raises(
                errors.BadOption, match="the schedule 'report' is in the code and not declared yet: start a w"
            ):
                await call
        with pytest.raises(errors.BadOption, match="there is no schedule 'report', nor any other: a worker declares"):
            await empty.schedules.pause("report")
        await app.declare()
        assert (await app.schedules.pause("report")).state == "paused"


def test_a_bad_expression_changes_nothing_either(app: Mainspring, kit: Testing) -> None:
    with pytest.raises(CronError):
        app.sync.schedules.alter("report", "0 25 * * *")

    assert view(app).rhythm == "0 * * * *"


def test_an_end_that_has_passed_cannot_be_altered_to(app: Mainspring, kit: Testing) -> None:
    with pytest.raises(errors.BadOption, match="is never due"):
        app.sync.schedules.alter("report", end=NOON - HOUR)


def test_a_pause_skips_and_a_resume_takes_one_strictly_in_the_future(app: Mainspring, kit: Testing) -> None:
    schedules = app.sync.schedules
    paused = schedules.pause("report", reason="audit", by="ann")
    kit.sync.advance("3h")
    assert (paused.state, paused.paused_at, kit.runs) == ("paused", NOON, [])

    assert schedules.resume("report", by="bob").next_at == NOON + 4 * HOUR
    kit.sync.advance("1h")

    assert [ran.at for ran in kit.runs] == [NOON + 4 * HOUR]
    assert (view(app).missed, view(app).skipped) == (0, 0)


def test_saying_it_twice_is_written_once(app: Mainspring, kit: Testing) -> None:
    schedules = app.sync.schedules
    for _ in range(2):
        schedules.pause("report", by="ann")
    for _ in range(2):
        schedules.alter("report", "0 9 * * *", by="ann")
    for _ in range(2):
        schedules.resume("report", by="ann")

    lines = [(line.action, line.by, line.subject) for line in reversed(app.sync.audit())]
    assert lines == [(f"schedule {verb}", "ann", "report") for verb in ("pause", "alter", "resume")]
    assert view(app).revision == 3


def test_a_trigger_is_outside_of_the_rhythm_and_marked(app: Mainspring, kit: Testing) -> None:
    before = view(app)

    app.sync.schedules.trigger("report", payload={"by": "hand"})
    (ran,) = kit.sync.drain()

    assert (ran.payload, ran.schedule, ran.at) == ({"by": "hand"}, "report", NOON)
    assert (view(app).next_at, view(app).fired) == (before.next_at, before.fired)
    assert [run.source for run in app.sync.schedules.runs("report")] == ["manual"]


def test_a_paused_one_can_be_triggered(app: Mainspring, kit: Testing) -> None:
    app.sync.schedules.pause("report")
    app.sync.schedules.trigger("report")

    assert len(kit.sync.drain()) == 1


def test_a_pause_cancels_what_has_not_begun_and_keeps_what_was_asked_for(app: Mainspring, kit: Testing) -> None:
    schedules = app.sync.schedules
    schedules.alter("report", jitter="30m")
    kit.sync.advance("1h")  # fired, and due within half an hour
    schedules.backfill("report", NOON - 2 * HOUR, NOON - HOUR)

    schedules.pause("report")
    kit.sync.advance("2h")

    runs = sorted((run.scheduled_for, run.source, run.status, run.error) for run in schedules.runs("report"))
    assert runs == [
        (NOON - 2 * HOUR, "manual", "done", None),
        (NOON - HOUR, "manual", "done", None),
        (NOON + HOUR, "schedule", "cancelled", "its schedule was paused"),
    ]


def test_once_can_be_moved_until_it_has_run(app: Mainspring, kit: Testing) -> None:
    schedules = app.sync.schedules
    schedules.once("call", NOON + HOUR, "mailer", "ann")
    schedules.once("call", NOON + timedelta(minutes=90), "mailer", "bob")
    kit.sync.advance("2h")

    (ran,) = kit.delivered("mailer")
    assert (ran.payload, ran.at) == ("bob", NOON + timedelta(minutes=90))
    assert view(app, "call").state == "finished"
    schedules.delete("call")
    assert schedules.get("call") is None


def test_once_that_was_paused_over_its_time_runs_when_it_is_resumed(app: Mainspring, kit: Testing) -> None:
    app.sync.schedules.once("later", kit.now + HOUR, "mailer", "ada")
    app.sync.schedules.pause("later")
    kit.sync.advance("2h")

    app.sync.schedules.resume("later")

    assert [ran.schedule for ran in kit.sync.drain()] == ["later"]


def test_once_that_has_had_its_time_is_not_paused_so_that_its_run_is_not_lost(app: Mainspring, kit: Testing) -> None:
    app.sync.schedules.once("call", NOON + HOUR, "mailer", "ada")
    kit.sync.advance("2h")

    paused = app.sync.schedules.pause("call", by="ann")

    assert (paused.state, paused.paused_at) == ("finished", None)
    assert [line.action for line in app.sync.audit()] == ["schedule once"]


def test_once_in_the_past_runs_now_where_that_is_asked_for(app: Mainspring, kit: Testing) -> None:
    app.sync.schedules.once("call", NOON - 100 * HOUR, "mailer", past="run")

    (ran,) = kit.sync.drain()

    assert (ran.group, ran.schedule) == ("mailer", "call")


def test_a_backfill_runs_one_after_another_and_leaves_the_rhythm(app: Mainspring, kit: Testing) -> None:
    schedules = app.sync.schedules
    schedules.put("nightly", "0 3 * * *", "mailer", holidays=[date(2029, 12, 25)])
    before = view(app, "nightly")

    instants = schedules.backfill("nightly", datetime(2029, 12, 23, tzinfo=UTC), datetime(2029, 12, 27, 3, tzinfo=UTC))
    kit.sync.drain()

    assert [at.day for at in instants] == [23, 24, 26, 27]
    assert len(kit.delivered("mailer")) == 4
    assert [run.scheduled_for for run in reversed(schedules.runs("nightly"))] == instants
    after = view(app, "nightly")
    assert after == ScheduleView(**{**_fields(before), "last_run": after.last_run, "run_times": after.run_times})
    assert after.run_times is not None
    assert after.run_times.runs == 4


def _fields(of: ScheduleView) -> dict[str, Any]:
    return {name: getattr(of, name) for name in ScheduleView.__dataclass_fields__}


def test_a_topic_is_published_to_whoever_subscribes(app: Mainspring, kit: Testing) -> None:
    app.sync.schedules.put("news", every("1h"), payload="all", topic="mail")
    kit.sync.advance("1h")

    assert [(sent.topic, sent.group, sent.payload) for sent in kit.published("mail")] == [("mail", None, "all")]
    assert [ran.payload for ran in kit.delivered("mailer")] == ["all"]


def test_the_next_times_are_in_its_own_zone(app: Mainspring, kit: Testing) -> None:
    app.sync.schedules.alter("report", "0 9 * * *", timezone="Asia/Tokyo")

    assert [at.isoformat() for at in app.sync.schedules.next("report", 2)] == [
        "2030-01-02T09:00:00+09:00",
        "2030-01-03T09:00:00+09:00",
    ]


def test_the_next_times_are_told_as_a_change_would_make_them(app: Mainspring, kit: Testing) -> None:
    @app.recurring("0 9 * * *", holidays=lambda day: day.weekday() > 2)
    async def early(ctx: Context) -> None: ...

    kit.sync.drain()  # it is declared
    before = view(app, "early")

    times = app.sync.schedules.next("early", 3, rhythm="30 10 * * *", timezone="Asia/Tokyo")
    any_day = app.sync.schedules.next("early", 2, holidays=[])

    # Thursday 3 January and the three days after it are decided by the function in the code.
    assert [at.isoformat() for at in times] == [f"2030-01-0{day}T10:30:00+09:00" for day in (2, 7, 8)]
    assert [at.day for at in any_day] == [2, 3]
    assert view(app, "early") == before


def test_a_change_to_nothing_and_a_reset_are_looked_ahead_at_as_well(app: Mainspring, kit: Testing) -> None:
    app.sync.schedules.alter("report", end=NOON + 2 * HOUR)

    assert len(app.sync.schedules.next("report", 5)) == 2
    assert len(app.sync.schedules.next("report", 5, reset=["end"])) == 5
    with pytest.raises(errors.BadOption, match=r"the schedule 'report' is never due: its end=.* has passed"):
        app.sync.schedules.next("report", 5, end=NOON - HOUR)
    with pytest.raises(errors.BadOption, match=r"schedules.next\(…\) has no option 'ends'"):
        app.sync.schedules.next("report", 5, ends=NOON)  # type: ignore[call-arg]
