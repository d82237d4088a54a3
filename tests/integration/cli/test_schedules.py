"""`schedules`: what runs on a rhythm, as it is listed and shown."""

import re
import shutil
from datetime import datetime
from pathlib import Path

from tests.integration.cli.conftest import HERE
from tests.integration.cli.shell import Shell


def test_schedules_are_listed_with_how_they_stand(timed: Shell) -> None:
    schedules = {each["name"]: each for each in timed("schedules", "list", "--json", "--app", "clockwork:app").json}

    assert sorted(schedules) == ["daily_report", "newsletter", "odd", "tick", "unlucky"]
    report, tick = schedules["daily_report"], schedules["tick"]
    assert (report["state"], report["timezone"], report["jitter"]) == ("active", "Europe/Berlin", 30.0)
    assert (report["never_ran"], report["last_run"]) == (True, None)
    assert (tick["never_ran"], tick["last_run"]["status"], tick["origin"]) == (False, "done", "code")
    assert schedules["newsletter"]["origin"] == "api"


def test_schedules_are_listed_for_people(timed: Shell) -> None:
    header, *lines = timed("schedules", "list").out.splitlines()

    words = re.split(r"\s{2,}", header)
    rows = {line.split()[0]: re.split(r"\s{2,}", line) for line in lines[:5]}
    assert words == ["SCHEDULE", "STATE", "RHYTHM", "NEXT", "ZONE", "LAST RUN", "MISSED", "TOOK"]
    assert rows["daily_report"][1:3] == ["active", "0 9 * * mon-fri"]
    assert re.fullmatch(r"in \d+\w, (\w{3} )?09:00", rows["daily_report"][3])
    assert rows["daily_report"][4:] == ["Europe/Berlin", "never ran", "0"]
    assert rows["tick"][5].startswith("done ")
    foreign = lines[5]  # below it, perhaps, that tick is overdue: its worker has gone
    assert foreign.startswith("odd: holidays is decided by clockwork.in_even_years, which this process does not have: ")
    assert foreign.endswith("give its application: --app MODULE:APP")


def test_the_list_fits_a_terminal_and_names_what_is_left_out(timed: Shell) -> None:
    narrow = timed.on_terminal("schedules", "list", "--app", "clockwork:app").out
    timed.environment["COLUMNS"] = "200"
    wide = timed.on_terminal("schedules", "list", "--app", "clockwork:app").out

    plain = re.sub(r"\x1b\[[0-9;]*m", "", narrow)
    # What is told below the table is prose, which a terminal breaks by itself: tick may be overdue by now.
    table = [line for line in plain.splitlines() if not line.startswith(("Overdue,", "odd:"))]
    assert max(len(line.rstrip()) for line in table) <= 80
    # How much room there is depends on how the next times are said at this hour.
    told = re.search(r"No room for (.+): widen the terminal, or add --json", plain)
    assert told is not None
    assert set(told[1].split(", ")) <= {"missed", "zone", "took"}
    assert "No room" not in wide


def test_without_schedules_the_list_teaches_how_to_have_some(stocked: Shell) -> None:
    listed, shown = stocked.several(("schedules", "list"), ("schedules", "show", "report"))

    assert "@app.recurring(" in listed.out
    assert "there is no schedule 'report', nor any other" in shown.complaint


def test_a_schedule_is_shown_in_words_with_its_next_times_and_who_set_what(timed: Shell) -> None:
    said = timed("schedules", "show", "daily_report").out

    facts = dict(re.split(r"\s{2,}", line, maxsplit=1) for line in said.split("\n\n")[0].splitlines())
    assert facts["in words"] == "At 09:00, Monday through Friday"
    assert facts["counted"] == "0 fired, 0 missed, 0 skipped"
    assert (facts["last run"], "days" in facts) == ("never ran", False)
    times = re.findall(r"^\w{3} \S+ 09:00:00 \+0([12]):00  \S+ 0([87]):00:00  ", said, re.MULTILINE)
    assert len(times) == 5
    assert {int(offset) + int(hour) for offset, hour in times} == {9}
    fields = {line.split()[0]: re.split(r"\s{2,}", line)[1:] for line in said.split("sources\n")[1].splitlines()}
    assert fields["overlap"] == ["queue", "code"]
    assert fields["misfire"] == ["latest", "default"]
    assert fields["misfire_after"] == ["1m", "default"]


def test_the_rule_for_two_day_fields_is_said_with_the_way_to_the_other(timed: Shell) -> None:
    both, altered, either = timed.several(
        ("schedules", "show", "unlucky"),
        ("schedules", "alter", "unlucky", "--day-match", "or"),
        ("schedules", "show", "unlucky"),
    )

    assert altered.code == 0
    assert "a day must match both day fields" in both.out
    assert "mainspring schedules alter unlucky --day-match or" in both.out
    assert "a day must match either day field" in either.out
    assert re.search(r"^day_match +or +edit$", either.out, re.MULTILINE)


def test_the_last_runs_are_drawn_and_listed_by_pages(timed: Shell) -> None:
    shown, first, as_json = timed.several(
        ("schedules", "show", "tick"),
        ("schedules", "runs", "tick", "--limit", "2"),
        ("schedules", "runs", "tick", "--limit", "2", "--json"),
    )
    newest, second = as_json.json
    hint = re.search(r"^There is more: add (--cursor \S+)$", first.out, re.MULTILINE)
    assert hint is not None
    older = timed("schedules", "runs", "tick", *hint[1].split(), "--json").json

    assert re.search(r"^runs +✓✓✓+  newest last$", shown.out, re.MULTILINE)
    assert first.out.count(" done ") == 2
    due = [datetime.fromisoformat(each["scheduled_for"]) for each in (newest, second, *older)]
    assert due == sorted(due, reverse=True)
    assert all(each["id"] < second["id"] for each in older)
    assert {each["source"] for each in older} == {"schedule"}


def test_where_configuration_has_set_a_field_it_is_said(timed: Shell) -> None:
    timed.environment["MAINSPRING_SCHEDULE_DAILY_REPORT"] = "0 10 * * *"
    with timed.started("worker", "clockwork:app") as worker:
        while timed("schedules", "show", "daily_report", "--json").json["configured"] == []:
            assert worker.poll() is None

    said = timed("schedules", "show", "daily_report").out

    assert re.search(r"^rhythm +0 10 \* \* \* +configuration$", said, re.MULTILINE)


def test_a_schedule_whose_days_are_told_by_code_is_shown_from_a_url_too(timed: Shell) -> None:
    by_url, by_app, refused = timed.several(
        ("schedules", "show", "odd", "--json"),
        ("schedules", "show", "odd", "--json", "--app", "clockwork:app"),
        ("schedules", "trigger", "odd"),
    )

    assert (by_url.json["state"], by_url.json["next"]) == ("active", [])
    assert by_url.json["description"] == by_app.json["description"]
    assert by_url.json["holidays"] == ["code:clockwork.in_even_years"]
    assert {datetime.fromisoformat(each["at"]).year % 2 for each in by_app.json["next"]} == {1}
    assert "give its application: --app MODULE:APP" in refused.complaint


def test_on_postgresql_they_are_listed_and_steered_alike(
    tmp_path: Path, postgres_url: str, postgres_schema: str
) -> None:
    shutil.copy(HERE / "clockwork.py", tmp_path)
    shell = Shell(tmp_path)
    shell.environment |= {"SHOP_URL": postgres_url, "SHOP_SCHEMA": postgres_schema}
    app = ("--app", "clockwork:app")
    with shell.started("worker", "clockwork:app", "--dev") as worker:
        assert worker.stdout is not None
        while not worker.stdout.readline().startswith("tick"):
            pass

    paused, altered, triggered, filled, listed = shell.several(
        ("schedules", "pause", "tick", *app, "--json"),
        ("schedules", "alter", "daily_report", "--rhythm", "every 1h", *app, "--json"),
        ("schedules", "trigger", "unlucky", *app, "--json"),
        ("schedules", "backfill", "daily_report", "2026-11-02", "2026-11-02T03:00", "--yes", *app, "--json"),
        ("schedules", "list", *app, "--json"),
    )

    assert paused.json["state"] == "paused"
    assert altered.json["schedule"]["rhythm"] == "every 1h"
    assert triggered.json["status"] == "stored"
    assert [each["at"] for each in filled.json["times"]] == [f"2026-11-02T0{hour}:00:00+01:00" for hour in range(4)]
    assert [(each["name"], each["state"]) for each in listed.json] == [
        ("daily_report", "active"),
        ("odd", "active"),
        ("tick", "paused"),
        ("unlucky", "active"),
    ]


def test_how_its_runs_go_is_altered_and_shown(timed: Shell) -> None:
    app = ("--app", "clockwork:app")
    options = ("--retry", "5s, 1m", "--timeout", "none", "--headers", '{"a": "b"}', "--only-if", "queue empty")
    altered, shown, undone = timed.several(
        ("schedules", "alter", "daily_report", *options, *app, "--json"),
        ("schedules", "show", "daily_report", *app),
        ("schedules", "alter", "daily_report", *(f"--reset={each}" for each in _RUNS), *app, "--json"),
    )

    schedule = altered.json["schedule"]
    assert schedule["retry"] == {"kind": "intervals", "waits": [5.0, 60.0], "jitter": 0.0}
    assert (schedule["untimed"], schedule["headers"], schedule["only_if"]) == (True, {"a": "b"}, "queue empty")
    facts = {tuple(line.split()[:2]): line for line in shown.out.splitlines() if line.split()}
    assert ("timeout", "none") in facts
    assert ("headers", "a=b") in facts
    assert ("dead", "of") in facts
    assert undone.json["schedule"]["edited"] == []


_RUNS = ("retry", "timeout", "headers", "only-if")
