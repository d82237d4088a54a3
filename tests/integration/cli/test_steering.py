"""`schedules`: pausing, triggering, altering, backfilling, deleting and freezing."""

import re

import pytest

from tests.integration.cli.shell import Shell

APP = ("--app", "clockwork:app")
REFUSED = [
    (["pause", "tik"], "there is no schedule 'tik'. Did you mean 'tick'? `mainspring schedules list` shows all"),
    *(([verb, "daily_reprt"], "Did you mean 'daily_report'?") for verb in ("show", "resume", "trigger", "delete")),
    (["runs", "daily_reprt"], "Did you mean 'daily_report'?"),
    (["alter", "daily_reprt", "--jitter", "1s"], "Did you mean 'daily_report'?"),
    (["backfill", "daily_reprt", "2026-11-01", "2026-11-02"], "Did you mean 'daily_report'?"),
    (["runs", "tick", "--limit", "0"], "--limit 0 must be 1 or more"),
    (["delete", "tick", *APP], "the schedule 'tick' is in the code of this app, which would declare it again"),
    (["delete", "newsletter"], "there is no terminal: pass --yes. It would ask: Delete the schedule newsletter?"),
    (["alter", "tick"], "nothing to alter: give --rhythm, another option or --reset FIELD"),
    (["alter", "tick", "--timezone", "Europe/Berln"], "Did you mean 'Europe/Berlin'?"),
    (["alter", "tick", "--reset", "rythm"], "--reset has no option 'rythm'. Did you mean 'rhythm'?"),
    (["alter", "tick", "--jitter", "5"], "jitter='5' is not a duration"),
    (["alter", "tick", "--rhythm", "every 5ms"], "every('5ms') is too often"),
    (["alter", "tick", "--misfire", "never"], 'Invalid value "never" for --misfire'),
    (["alter", "tick", "--holidays", "someday"], "'someday' is neither a weekday"),
    (["alter", "tick", "--start", "noon"], "--start takes a time, not 'noon'"),
    (["alter", "tick", "--start", "2030-01-02", "--end", "2030-01-01"], "is not after start="),
    (["alter", "daily_report", "--end", "2020-01-01"], "the schedule 'daily_report' is never due"),
    (["alter", "daily_report", "--rhythm", "0 0 30 2 *"], "the schedule 'daily_report' is never due"),
    (["backfill", "tick", "2020-01-01", "2021-01-01", "-y"], "'tick' has more than 1,000 occurrences from 2020-01-01"),
    (["backfill", "tick", "2021-01-01", "2020-01-01", "-y"], "is not after start="),
    (
        ["backfill", "tick", "2021-01-01", "2021-01-01"],
        "a date means midnight, so write the next day, or a time",
    ),
    (["backfill", "tick", "2021-01-01"], "END is missing"),
    (["alter", "tick", "--jitter", "-5s"], "--jitter DURATION is missing"),
    (["alter", "tick", "--jitter=-5s"], "jitter='-5s' is negative"),
    (["alter", "tick", "--workdays", "xx"], "workdays='xx' is neither a weekday"),
    (["resume", "odd"], "odd: holidays is decided by clockwork.in_even_years, which this process does not have: give"),
    (
        ["backfill", "daily_report", "2026-11-02", "2026-11-06"],
        "there is no terminal: pass --yes. It would ask: Run daily_report 4 times?",
    ),
    (["freeze"], "no schedules selected: give --app MODULE:APP, or --everywhere"),
    (["thaw"], "no schedules selected: give --app MODULE:APP, or --everywhere"),
    (["trigger", "tick", "--payload", "{"], "the payload is not JSON"),
]


def test_a_mistake_is_told_in_one_line(timed: Shell) -> None:
    answers = timed.several(*(("schedules", *arguments) for arguments, _ in REFUSED))

    for (arguments, said), answer in zip(REFUSED, answers, strict=True):
        assert said in answer.complaint, arguments


def test_a_bad_rhythm_is_shown_with_its_place_and_changes_nothing(timed: Shell) -> None:
    ended = timed("schedules", "alter", "tick", "--rhythm", "0 99 * * *")

    assert ended.code == 2
    assert ended.err.splitlines() == [
        "error: bad cron expression: hours: found 99, allowed: 0-23",
        "  0 99 * * *",
        "    ^",
    ]
    assert timed("schedules", "show", "tick", "--json").json["edited"] == []


def test_a_schedule_is_paused_with_a_reason_and_resumed(timed: Shell) -> None:
    paused, again, listed, as_json, resumed, after = timed.several(
        ("schedules", "pause", "tick", "--reason", "too loud", "--url", "sqlite:///clockwork.db"),
        ("schedules", "pause", "tick"),
        ("schedules", "list"),
        ("schedules", "show", "tick", "--json"),
        ("schedules", "resume", "tick"),
        ("schedules", "show", "tick", "--json"),
    )

    assert "mainspring schedules resume tick --url sqlite:///clockwork.db" in paused.out
    assert again.out == "tick is already paused; nothing changed\n"
    assert (again.code, as_json.json["state"], as_json.json["pause_reason"]) == (0, "paused", "too loud")
    assert re.search(r"^tick was paused .* by .*\(cli\): too loud$", listed.out, re.MULTILINE)
    assert re.fullmatch(r"tick is resumed, due (now|in 1s), [\d:.]+\n", resumed.out)
    assert (after.json["state"], after.json["paused_at"]) == ("active", None)


def test_a_triggered_schedule_runs_outside_of_its_rhythm(timed: Shell) -> None:
    triggered, with_payload = timed.several(
        ("schedules", "trigger", "unlucky", *APP),
        ("schedules", "trigger", "unlucky", "--payload", '{"by": "hand"}', "--json"),
    )
    with timed.started("worker", "clockwork:app"):
        while len(runs := timed("schedules", "runs", "unlucky", "--json").json) < 2:
            pass

    shown = timed("messages", "show", with_payload.json["id"], "--json").json
    assert re.search(r"mainspring messages show \S+ --app clockwork:app$", triggered.out)
    assert {(each["source"], each["status"]) for each in runs} <= {("manual", "failed"), ("manual", "dead")}
    assert shown["payload"] == {"by": "hand"}


def test_altering_shows_the_times_before_and_after_and_how_to_undo_it(timed: Shell) -> None:
    said = timed("schedules", "alter", "daily_report", "--rhythm", "every 1h", "--timezone", "UTC").out
    again = timed("schedules", "alter", "daily_report", "--rhythm", "every 1h").out
    reset = timed("schedules", "alter", "daily_report", "--reset", "rhythm", "--reset", "timezone", "--json").json

    before, after = said.split("after: every 1h\n")
    assert before.startswith(
        "rhythm: 0 9 * * mon-fri → every 1h\ntimezone: Europe/Berlin → UTC\nbefore: 0 9 * * mon-fri\nIN EUROPE/BERLIN "
    )
    assert (before.count("09:00:00 +0"), after.count(":00:00 +00:00")) == (5, 5)
    assert "mainspring schedules alter daily_report --reset rhythm --reset timezone" in after
    assert again == "daily_report already has these values; nothing changed\n"
    assert (reset["schedule"]["rhythm"], reset["schedule"]["edited"]) == ("0 9 * * mon-fri", [])
    assert reset["before"][0]["at"].endswith(":00:00+00:00")
    assert "T09:00:00+0" in reset["after"][0]["at"]


def test_every_field_can_be_altered_and_bare_times_are_of_the_zone(timed: Shell) -> None:
    options = {
        "--misfire": "all",
        "--misfire-after": "5m",
        "--catch-up": "7",
        "--overlap": "allow",
        "--jitter": "2s",
        "--start": "2030-07-01T09:00",
        "--end": "2031-01-01T00:00:00+00:00",
        "--holidays": "sat,2030-12-25",
        "--workdays": "mon-fri",
        "--on-gap": "skip",
        "--priority": "high",
    }
    words = [word for pair in options.items() for word in pair]

    view = timed("schedules", "alter", "daily_report", *words, "--json").json["schedule"]

    assert (view["misfire"], view["misfire_after"], view["catch_up"]) == ("all", 300.0, 7)
    assert (view["overlap"], view["jitter"], view["on_gap"]) == ("allow", 2.0, "skip")
    assert (view["start"], view["end"]) == ("2030-07-01T07:00:00Z", "2031-01-01T00:00:00Z")
    assert (view["holidays"], view["workdays"]) == (["sat", "2030-12-25"], ["mon-fri"])
    assert view["edited"] == sorted(name.removeprefix("--").replace("-", "_") for name in options)
    assert timed("schedules", "alter", "daily_report", "--holidays", "", "--json").json["schedule"]["holidays"] == []


def test_a_backfill_says_how_many_and_runs_them(timed: Shell) -> None:
    span = ("2026-11-02T09:00", "2026-11-06T09:00")
    no = timed.on_terminal("schedules", "backfill", "daily_report", *span, typed="n\n")
    yes, nothing = timed.several(
        ("schedules", "backfill", "daily_report", *span, "--yes"),
        ("schedules", "backfill", "daily_report", "2026-11-07", "2026-11-08", "--yes"),
    )
    with timed.started("worker", "clockwork:app"):
        while len(runs := timed("schedules", "runs", "daily_report", "--json").json) < 5:
            pass

    assert (no.code, "Run daily_report 5 times? [y/N]" in no.out, "Nothing run." in no.out) == (1, True, True)
    assert "and 3 more times in between" in yes.out
    assert yes.out.endswith("5 runs of daily_report published: mainspring schedules runs daily_report\n")
    assert nothing.out.startswith("daily_report was not due from 2026-11-07")
    assert sorted(each["scheduled_for"] for each in runs) == [f"2026-11-0{day}T08:00:00Z" for day in range(2, 7)]
    assert {each["source"] for each in runs} == {"manual"}


def test_a_schedule_made_at_run_time_is_deleted_only_when_said_so(timed: Shell) -> None:
    kept = timed.on_terminal("schedules", "delete", "newsletter", typed="\n")
    deleted, gone = timed.several(
        ("schedules", "delete", "newsletter", "--yes"), ("schedules", "delete", "newsletter", "--yes")
    )

    assert (kept.code, "Nothing deleted." in kept.out) == (1, True)
    assert deleted.out.startswith("newsletter is deleted; its runs stay")
    assert "there is no schedule 'newsletter'" in gone.complaint


def test_a_freeze_stops_all_of_an_app_until_it_is_thawed(timed: Shell) -> None:
    frozen, again, listed, states, thawed, twice, after = timed.several(
        ("schedules", "freeze", "--reason", "we move", *APP),
        ("schedules", "freeze", "--reason", "we still move", *APP, "--json"),
        ("schedules", "list"),
        ("schedules", "list", "--json"),
        ("schedules", "thaw", *APP),
        ("schedules", "thaw", *APP),
        ("schedules", "list", "--json"),
    )

    assert frozen.out.endswith("are frozen. To thaw them: mainspring schedules thaw --app clockwork:app\n")
    assert again.json == {"app": "clockwork", "frozen": True}
    assert re.search(r"^The schedules of clockwork were frozen .*\(cli\): we still move$", listed.out, re.MULTILINE)
    assert {each["state"] for each in states.json} == {"frozen"}
    assert thawed.out == "The schedules of clockwork are thawed\n"
    assert (twice.code, twice.out) == (0, "The schedules of clockwork were not frozen; nothing changed\n")
    assert {each["state"] for each in after.json} == {"active"}


def test_what_is_frozen_twice_says_what_is_left_to_thaw(timed: Shell) -> None:
    _, _, own, everywhere, _, _, first, second = timed.several(
        ("schedules", "freeze", *APP),
        ("schedules", "freeze", "--everywhere"),
        ("schedules", "thaw", *APP),
        ("schedules", "thaw", "--everywhere"),
        ("schedules", "freeze", *APP),
        ("schedules", "freeze", "--everywhere"),
        ("schedules", "thaw", "--everywhere"),
        ("schedules", "thaw", *APP, "--json"),
    )

    assert "still frozen: mainspring schedules thaw --everywhere" in own.out
    assert everywhere.out == "The schedules of every app are thawed\n"
    assert "Still frozen individually: clockwork." in first.out
    assert second.json == {"app": "clockwork", "thawed": True, "still_frozen": []}


@pytest.mark.parametrize("verb", ["pause", "alter"])
def test_who_did_it_is_in_the_audit_log(timed: Shell, verb: str) -> None:
    timed("schedules", verb, "tick", *(["--jitter", "1ms"] if verb == "alter" else []))

    (timed.directory / "audit.py").write_text(
        "import asyncio\nfrom clockwork import app\n\nasync def main():\n    async with app:\n"
        "        (entry, *_) = await app.audit()\n        print(entry.action, entry.by)\n\nasyncio.run(main())\n"
    )
    assert re.fullmatch(rf"schedule {verb} .*\(cli\)\n", timed.python("audit.py"))
