"""Configuration over the code's own rhythm: from a file or a variable; what is wrong with it stops nothing."""

import logging
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from mainspring import Mainspring, ScheduleView, every
from mainspring.timing.duration import duration
from tests.integration.app.shop import eventually

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
Build = Callable[[], Mainspring]


@pytest.fixture
def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Build:
    """Makes the app, as a process does that starts in this folder."""
    monkeypatch.chdir(tmp_path)

    def made() -> Mainspring:
        app = Mainspring("memory://", name="shop")

        @app.recurring("0 9 * * *", name="daily.report", overlap="queue")
        async def report() -> None: ...

        @app.recurring(every("1h"), holidays=lambda day: day == date(2026, 12, 25))
        async def sweep() -> None: ...

        return app

    return made


def viewed(app: Mainspring, name: str) -> ScheduleView:
    """The schedule, as it is after a start."""
    with app.testing(start=NOON):
        view = app.sync.schedules.get(name)
    assert view is not None
    return view


def write(text: str) -> None:
    Path("mainspring.toml").write_text(text)


def test_without_configuration_the_code_decides(build: Build) -> None:
    view = viewed(build(), "daily.report")

    assert (view.rhythm, view.configured, view.overlap) == ("0 9 * * *", (), "queue")


def test_a_line_in_the_file_sets_the_rhythm(build: Build) -> None:
    write('[schedules]\n"daily.report" = "30 7 * * mon-fri"\nsweep = "every 2h"\n')
    app = build()

    view = viewed(app, "daily.report")

    assert (view.rhythm, view.configured, view.overlap) == ("30 7 * * mon-fri", ("rhythm",), "queue")
    assert view.next_at == datetime(2026, 6, 2, 7, 30, tzinfo=UTC)
    assert viewed(app, "sweep").rhythm == "every 2h"


def test_a_table_sets_whatever_says_when(build: Build) -> None:
    write(
        '[schedules."daily.report"]\nrhythm = "0 7 * * *"\ntimezone = "Asia/Tokyo"\nmisfire = "skip"\n'
        'misfire_after = "5m"\nholidays = ["sat", "sun"]\nend = 2027-01-01T00:00:00Z\n'
    )

    view = viewed(build(), "daily.report")

    assert view.configured == ("end", "holidays", "misfire", "misfire_after", "rhythm", "timezone")
    assert (view.timezone, view.misfire, view.holidays) == ("Asia/Tokyo", "skip", ("sat", "sun"))
    assert view.next_at == datetime(2026, 6, 1, 22, tzinfo=UTC)


def test_a_table_of_one_app_is_for_that_app(build: Build) -> None:
    write(
        '[schedules]\nsweep = "every 2h"\n[apps.shop.schedules]\nsweep = "every 3h"\n[apps.other.schedules]\nx = "?"\n'
    )

    assert viewed(build(), "sweep").rhythm == "every 3h"


def test_a_variable_goes_before_the_file(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    write('[schedules]\n"daily.report" = "30 7 * * *"\n')
    monkeypatch.setenv("MAINSPRING_SCHEDULE_DAILY_REPORT", " 15 6 * * * ")

    assert viewed(build(), "daily.report").rhythm == "15 6 * * *"


def test_days_that_code_tells_stay_beneath_another_rhythm(
    build: Build, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("MAINSPRING_SCHEDULE_SWEEP", "0 * * * *")

    view = viewed(build(), "sweep")

    assert (view.rhythm, view.configured) == ("0 * * * *", ("rhythm",))
    assert caplog.messages == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('"daily.report" = "0 25 * * *"', "bad cron expression '0 25 * * *': hours: found 25, allowed: 0-23. The"),
        ('"daily.report" = "0 9 * *"', "bad cron expression '0 9 * *': it ends after 4 fields; write 5 fields"),
        ('"daily.report" = "0 0 30 2 *"', "it is never due"),
        ('"daily.report" = 5', "5 is neither a rhythm nor a table of options"),
        ('"daily.report" = { timezone = "Europe/Berlim" }', "Did you mean 'Europe/Berlin'? The code's own value"),
        ('"daily.report" = { overlap = "never" }', "overlap='never' is not one of"),
        ('"daily.report" = { holidays = "XX" }', "nor a country that the holidays package knows"),
        ('"daily.report" = { end = 2027-01-01 }', "end=2027-01-01 is no instant: write it as in end = 2030-01-31T09"),
        ('"daily.report" = { start = "2027-01-01T00:00:00Z" }', "is no instant: write it as in start = 2030"),
        ('"daily.report" = { timeout = 90 }', "timeout=90 has no unit: write text like '30s'"),
        ('"daily.report" = { start = 2027-01-01T00:00:00 }', "start=2027-01-01 00:00:00 is no instant"),
    ],
)
def test_a_mistake_is_logged_with_its_place_and_the_codes_own_value_is_used(
    build: Build, caplog: pytest.LogCaptureFixture, text: str, message: str
) -> None:
    write(f"[schedules]\n{text}\n")

    view = viewed(build(), "daily.report")

    assert (view.rhythm, view.configured) == ("0 9 * * *", ())
    (line,) = caplog.messages
    assert line.startswith("mainspring.toml:2: schedule daily.report: ")
    assert message in line
    assert line.endswith("The code's own value is used")
    assert "\n" not in line


def test_a_wrong_option_takes_no_other_with_it(build: Build, caplog: pytest.LogCaptureFixture) -> None:
    write(
        '[schedules."daily.report"]\n\ntimeout = "90"\nrhythm = "0 3 * * *"\nmax_retries = 3\n'
        'failed = "nobody"\noverlap = "skip"\n'
    )

    view = viewed(build(), "daily.report")

    assert (view.rhythm, view.configured, view.overlap) == ("0 3 * * *", ("overlap", "rhythm"), "skip")
    timeout, unknown, failed = caplog.messages
    assert timeout.startswith("mainspring.toml:3: schedule daily.report: timeout='90' is not a duration")
    assert timeout.endswith("The code's own value is used")
    assert unknown.startswith("mainspring.toml:5: schedule daily.report: a schedule in the configuration has no option")
    assert unknown.endswith("It is ignored")
    assert failed.startswith("mainspring.toml:6: schedule daily.report: failed='nobody': 'nobody' is no consumer of")


def test_a_wrong_rhythm_of_a_variable_leaves_the_table_of_the_file(
    build: Build, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    write('[schedules.sweep]\nrhythm = "every 2h"\noverlap = "skip"\n')
    monkeypatch.setenv("MAINSPRING_SCHEDULE_SWEEP", "hourly")

    view = viewed(build(), "sweep")

    assert (view.rhythm, view.overlap) == ("every 1h", "skip")
    (line,) = caplog.messages
    assert line.startswith("MAINSPRING_SCHEDULE_SWEEP: schedule sweep: ")


@pytest.mark.parametrize("option", ['only_if = "queue empty"', 'failed = "alarm"', 'then = "alarm"'])
def test_what_runs_without_a_database_takes_no_option_that_needs_one(
    option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    write(f"[schedules.tick]\n{option}\n")
    app = Mainspring("memory://", name="shop")

    @app.consumer("alarms")
    async def alarm(payload: object) -> None: ...

    @app.recurring(every("1h"), offline=True)
    async def tick() -> None: ...

    assert viewed(app, "tick").configured == ()
    (line,) = caplog.messages
    name = option.partition(" ")[0]
    assert f"schedule tick: offline=True runs it without a database, so remove {name}=. The code's own" in line


def test_a_bad_variable_is_named(
    build: Build, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("MAINSPRING_SCHEDULE_SWEEP", "hourly")

    assert viewed(build(), "sweep").rhythm == "every 1h"
    assert caplog.messages[0].startswith("MAINSPRING_SCHEDULE_SWEEP: schedule sweep: ")


def test_a_name_that_is_no_schedule_is_logged(build: Build, caplog: pytest.LogCaptureFixture) -> None:
    write('[schedules]\nsweeps = "every 2h"\n')

    with caplog.at_level(logging.WARNING, "mainspring.schedules"):
        assert viewed(build(), "sweep").rhythm == "every 1h"

    (told,) = caplog.messages
    assert told == "mainspring.toml:2: this app has no schedule 'sweeps'. Did you mean 'sweep'? It is ignored"


def test_a_variable_that_names_no_schedule_is_logged_with_the_one_that_does(
    build: Build, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("MAINSPRING_SCHEDULE_DAYLY_REPORT", "every 2h")
    monkeypatch.setenv("MAINSPRING_SCHEDULE_X", "every 2h")

    assert viewed(build(), "daily.report").rhythm == "0 9 * * *"
    near, far = caplog.messages
    assert near == (
        "MAINSPRING_SCHEDULE_DAYLY_REPORT: this app has no schedule of this name. Did you mean "
        "MAINSPRING_SCHEDULE_DAILY_REPORT? It is ignored"
    )
    assert far == "MAINSPRING_SCHEDULE_X: this app has no schedule of this name. It is ignored"


def test_an_app_without_schedules_says_that_what_is_set_for_one_is_ignored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    write('[schedules]\nsweep = "every 2h"\n')
    app = Mainspring("memory://")

    with app.testing(start=NOON):
        assert app.sync.schedules.list() == []

    assert caplog.messages == ["mainspring.toml:2: this app has no schedule 'sweep'. It is ignored"]


def test_an_end_in_the_file_that_has_passed_ends_it(build: Build, caplog: pytest.LogCaptureFixture) -> None:
    write("[schedules.sweep]\nend = 2020-01-01T00:00:00Z\n")

    view = viewed(build(), "sweep")

    assert (view.state, view.next_at, caplog.messages) == ("finished", None, [])


async def test_a_worker_starts_with_what_is_configured(build: Build) -> None:
    write('[schedules]\nsweep = "every 100ms"\n')
    app = build()

    async def has_run() -> bool:
        view = await app.schedules.get("sweep")
        return view is not None and view.fired > 0

    async with app.worker():
        await eventually(has_run)


@pytest.mark.parametrize(
    ("of_the_app", "of_the_code", "configured", "edited", "expected"),
    [
        (None, None, None, None, "1m"),
        ("5m", None, None, None, "5m"),
        ("5m", "2m", None, None, "2m"),
        ("5m", "1m", None, None, "1m"),
        ("5m", "2m", "3m", None, "3m"),
        ("5m", "2m", "3m", "4m", "4m"),
        ("5m", None, "3m", "4m", "4m"),
    ],
)
def test_what_misfires_is_decided_by_the_nearest_that_says_so(
    of_the_app: str | None,
    of_the_code: str | None,
    configured: str | None,
    edited: str | None,
    expected: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    if configured is not None:
        write(f'[schedules.sweep]\nmisfire_after = "{configured}"\n')
    app = Mainspring("memory://", name="shop", misfire_after=of_the_app)

    @app.recurring(every("1h"), misfire_after=of_the_code)
    async def sweep() -> None: ...

    with app.testing(start=NOON):
        if edited is not None:
            app.sync.schedules.alter("sweep", misfire_after=edited)
        view = app.sync.schedules.get("sweep")
        assert view is not None
        assert view.misfire_after == duration(expected)


async def test_a_schedule_by_put_has_the_default_of_the_app() -> None:
    app = Mainspring("memory://", name="shop", misfire_after="2h")

    @app.consumer("mail")
    async def mail(_payload: object) -> None: ...

    with app.testing(start=NOON):
        made = await app.schedules.put("digest", every("1h"), mail)
        other = await app.schedules.put("news", every("1h"), mail, misfire_after="3m")

    assert (made.misfire_after, other.misfire_after) == (timedelta(hours=2), timedelta(minutes=3))


async def test_a_changed_default_reaches_a_stored_schedule_when_it_is_declared_again(tmp_path: Path) -> None:
    def shop(**options: Any) -> Mainspring:
        app = Mainspring(f"sqlite:///{tmp_path / 'shop.db'}", name="shop", **options)

        @app.recurring(every("1h"))
        async def sweep() -> None: ...

        @app.recurring(every("1h"), misfire_after="2m")
        async def report() -> None: ...

        return app

    found: list[tuple[timedelta, timedelta, int]] = []
    for options in ({}, {"misfire_after": "1m"}, {"misfire_after": "5m"}, {"misfire_after": "5m"}, {}):
        async with shop(**options) as app:
            await app.declare()
            sweep, report = await app.schedules.get("sweep"), await app.schedules.get("report")
            assert sweep is not None
            assert report is not None
            found.append((sweep.misfire_after, report.misfire_after, sweep.revision))

    minute = timedelta(minutes=1)
    assert [each[:2] for each in found] == [
        (minute, 2 * minute),
        (minute, 2 * minute),
        (5 * minute, 2 * minute),
        (5 * minute, 2 * minute),
        (minute, 2 * minute),
    ]
    # Only a change is written.
    first = found[0][2]
    assert [each[2] - first for each in found] == [0, 0, 1, 1, 2]
