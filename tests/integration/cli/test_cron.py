"""`cron`: explain an expression, without a database."""

import pytest

from tests.integration.cli.shell import Shell


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    """An empty directory is enough."""
    return Shell(tmp_path_factory.mktemp("cron"))


def test_the_next_times_are_in_the_zone_and_in_utc(shell: Shell) -> None:
    said = shell(
        *("cron", "0 0 9 * * MON#2", "--timezone", "Europe/Berlin", "-n", "3", "--from", "2026-02-10", "--json")
    ).json

    assert said == {
        "rhythm": "0 0 9 * * MON#2",
        "description": "At 09:00, on the second Monday of the month",
        "timezone": "Europe/Berlin",
        "day_rule": None,
        "next": [
            {"at": "2026-03-09T09:00:00+01:00", "utc": "2026-03-09T08:00:00Z", "clocks": None},
            {"at": "2026-04-13T09:00:00+02:00", "utc": "2026-04-13T07:00:00Z", "clocks": "forward 1h"},
            {"at": "2026-05-11T09:00:00+02:00", "utc": "2026-05-11T07:00:00Z", "clocks": None},
        ],
    }


def test_a_time_that_clocks_skip_and_one_that_comes_twice(shell: Shell) -> None:
    fired, skipped, twice = shell.several(
        ("cron", "30 2 * * *", "-z", "Europe/Berlin", "--from", "2026-03-28T12:00", "-n", "2"),
        ("cron", "30 2 * * *", "-z", "Europe/Berlin", "--from", "2026-03-28T12:00", "-n", "1", "--on-gap", "skip"),
        ("cron", "*/30 * * * *", "-z", "Europe/Berlin", "--from", "2026-10-25T02:00+02:00", "-n", "2"),
    )

    assert fired.out.splitlines()[-3:] == [
        "IN EUROPE/BERLIN                IN UTC               CLOCKS",
        "Sun 2026-03-29 03:00:00 +02:00  2026-03-29 01:00:00  forward 1h",
        "Mon 2026-03-30 02:30:00 +02:00  2026-03-30 00:30:00",
    ]
    assert skipped.out.splitlines()[-1].startswith("Mon 2026-03-30 02:30:00 +02:00")
    assert twice.out.splitlines()[-2:] == [
        "Sun 2026-10-25 02:30:00 +02:00  2026-10-25 00:30:00",
        "Sun 2026-10-25 02:00:00 +01:00  2026-10-25 01:00:00  back 1h",
    ]


def test_from_now_it_says_how_far_away_they_are(shell: Shell) -> None:
    every, at = shell.several(("cron", "every 90s"), ("cron", "@every_second", "-n", "1"))

    assert every.out.splitlines()[:2] == ["rhythm    every 1m30s", "in words  Every 90 seconds"]
    assert every.out.splitlines()[3].split() == ["IN", "UTC", "FROM", "NOW"]
    assert at.out.splitlines()[-1].endswith("now")


def test_the_rule_for_two_day_fields_is_said_with_the_way_to_the_other(shell: Shell) -> None:
    both, either, as_json = shell.several(
        ("cron", "0 9 13 * fri", "--from", "2026-11-01", "-n", "1"),
        ("cron", "0 9 13 * fri", "--from", "2026-11-01", "-n", "1", "--day-match", "or"),
        ("cron", "0 9 13 * fri", "--json"),
    )

    assert both.out.splitlines()[2:4] == [
        "days      a day must match both day fields",
        "          to match either: --day-match or",
    ]
    assert both.out.splitlines()[-1].startswith("Fri 2026-11-13")
    assert "          to match both: --day-match and\n" in either.out
    assert either.out.splitlines()[-1].startswith("Fri 2026-11-06")
    assert as_json.json["day_rule"] == "and"


def test_a_bad_expression_is_shown_with_a_caret_below_the_place(shell: Shell) -> None:
    ended = shell("cron", "0 9 * * mon-fryday")

    assert (ended.code, ended.out) == (2, "")
    said, expression, caret = ended.err.splitlines()
    assert said.startswith("error: bad cron expression: days of week: ")
    assert expression == "  0 9 * * mon-fryday"
    assert expression[caret.index("^") :] == "fryday"


def test_a_mistake_is_told_in_one_line(shell: Shell) -> None:
    refused = {
        ("@daily", "--timezone", "Europe/Berln"): "Did you mean 'Europe/Berlin'?",
        ("@daily", "-n", "0"): "count=0 must be a whole number from 1 to 1,000",
        ("@daily", "--from", "noon"): "--from takes a time, not 'noon'",
        ("0 0 30 2 *",): "this is never due: '0 0 30 2 *' matches no date: check its fields of days and months",
        ("every 10",): "every='10' is not a duration",
        ("0", "9", "*", "*", "1"): "quote the expression, or the shell expands it: mainspring cron '0 9 * * mon-fri'",
        ("",): "it is empty; write 5 fields",
        ("@daily", "-z", "UTC+2"): "An offset is no zone: write a name",
        ("@daily", "--from", "9999-12-31T12:00"): "'@daily' has no occurrence after 9999-12-31 12:00:00+00:00",
        (): "EXPRESSION is missing",
    }

    answers = shell.several(*(("cron", *arguments) for arguments in refused))

    for (arguments, said), answer in zip(refused.items(), answers, strict=True):
        assert said in answer.complaint, arguments
