"""What the doctor says of schedules: which configuration sets, and what of it is not followed."""

from pathlib import Path

import pytest

from mainspring import Mainspring, every
from mainspring.app.config import Options
from mainspring.app.environment import read_environment
from mainspring.app.observe.doctor import of_schedules, of_schedules_unseen


@pytest.fixture(autouse=True)
def _in_a_directory_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def shop() -> Mainspring:
    app = Mainspring("memory://", name="shop")

    @app.recurring("0 9 * * *", name="daily.report")
    async def report() -> None: ...

    @app.recurring(every("1h"))
    async def sweep() -> None: ...

    return app


def told(app: Mainspring) -> list[tuple[str, str, str]]:
    findings = list(of_schedules(app, "shop:app"))
    assert {each.about for each in findings} <= {"schedules"}
    return [(each.grade, each.summary, each.advice) for each in findings]


def write(text: str) -> None:
    Path("mainspring.toml").write_text(text)


def test_an_app_without_schedules_and_settings_has_nothing_to_say() -> None:
    assert told(Mainspring("memory://")) == []


def test_the_schedules_in_the_code_are_named_and_those_that_are_set_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    write('[schedules]\nsweep = "every 2h"\n[schedules."daily.report"]\ntimezone = "Asia/Tokyo"\n')
    monkeypatch.setenv("MAINSPRING_SCHEDULE_DAILY_REPORT", "0 8 * * *")

    assert told(shop()) == [
        ("ok", "2 in shop:app: daily.report, sweep", ""),
        (
            "ok",
            (
                "set by configuration: daily.report (MAINSPRING_SCHEDULE_DAILY_REPORT, mainspring.toml:3), "
                "sweep (mainspring.toml:2)"
            ),
            "",
        ),
    ]


def test_a_rhythm_that_cannot_be_read_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    write('[schedules]\nsweep = "0 25 * * *"\n')
    monkeypatch.setenv("MAINSPRING_SCHEDULE_DAILY_REPORT", "every 1ms")

    _, variable, line = told(shop())

    assert variable[:2] == (
        "error",
        (
            "MAINSPRING_SCHEDULE_DAILY_REPORT: schedule daily.report: every('1ms') is too often: the least is 100ms. "
            "The code's own value is used"
        ),
    )
    assert line == (
        "error",
        (
            "mainspring.toml:2: schedule sweep: bad cron expression '0 25 * * *': hours: found 25, allowed: 0-23. The "
            "code's own value is used"
        ),
        "correct it there; `mainspring cron RHYTHM` explains a rhythm",
    )


def test_a_setting_for_no_schedule_of_the_app_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    write('[schedules]\nsweeps = "every 2h"\n')
    monkeypatch.setenv("MAINSPRING_SCHEDULE_SWEP", "every 2h")

    _, line, variable = told(shop())

    assert line == (
        "warning",
        "mainspring.toml:2: this app has no schedule 'sweeps'. Did you mean 'sweep'? It is ignored",
        (
            "remove or rename it: the schedules of shop are daily.report, sweep. Settings of another app belong in "
            "[apps.NAME.schedules]"
        ),
    )
    assert variable == (
        "warning",
        (
            "MAINSPRING_SCHEDULE_SWEP: this app has no schedule of this name. Did you mean MAINSPRING_SCHEDULE_SWEEP? "
            "It is ignored"
        ),
        "unset or rename it: the schedules of shop are daily.report, sweep",
    )
    assert told(Mainspring("memory://", name="bare"))[1][2] == "unset or rename it: bare has no schedules"


def test_looking_logs_nothing(caplog: pytest.LogCaptureFixture) -> None:
    write('[schedules]\nsweep = "0 25 * * *"\n')

    told(shop())

    assert caplog.messages == []


def test_without_an_application_they_are_mentioned() -> None:
    write('[schedules]\nsweep = "every 2h"\n')

    (note,) = of_schedules_unseen(Options.read({}, *read_environment({}).layers()))

    assert (note.grade, note.summary) == (
        "note",
        "set by configuration, and checked only with an application: sweep",
    )
    assert note.advice == "mainspring doctor MODULE:APP"
    assert list(of_schedules_unseen(Options())) == []
