"""`demo`: it ends by itself, adds up, and leaves a database that the printed commands work on."""

import re
import shlex

from tests.integration.cli.shell import Shell


def test_the_demo_adds_up_and_what_it_says_to_type_works(shell: Shell) -> None:
    ended = shell("demo", "--seconds", "5", "--file", "demo.db")

    assert ended.code == 0, ended.out
    assert "✗" not in ended.out
    assert re.search(r"dashboard: http://127\.0\.0\.1:\d+/login#token=\S+$", ended.out, re.MULTILINE)
    published, handled, cancelled, dead, waiting = map(
        int,
        re.search(
            r"(\d+) published = (\d+) handled \+ (\d+) cancelled \+ (\d+) dead \+ (\d+) waiting", ended.out
        ).groups(),  # type: ignore[union-attr]
    )
    assert published == handled + cancelled + dead + waiting
    assert min(handled, waiting) > 0
    assert dead == 1
    reports = re.search(r"(\d+) reports were due in Asia/Tokyo, (\d+) were made", ended.out)
    assert reports is not None
    assert int(reports[1]) >= int(reports[2]) >= 1
    assert "  reports " in ended.out
    _type_what_it_says(shell, ended.out)


def _type_what_it_says(shell: Shell, said: str) -> None:
    commands = re.findall(r"^  (?:\S*mainspring|\S+ -m mainspring) (.*)$", said, re.MULTILINE)
    (shell.environment["MAINSPRING_URL"],) = re.findall(r"export MAINSPRING_URL=(\S+)", said)

    answers = [shell(*shlex.split(command, comments=True)) for command in commands]

    assert [answer.code for answer in answers] == [0, 0, 0, 0, 0, 0]
    groups, schedules, messages, dead, shown, revived = (answer.out for answer in answers)
    assert "send_receipt" in groups
    assert "sales_report" in schedules
    assert "payments.timeout" in messages
    assert "Unreadable" in dead
    assert "a tenner" in shown
    assert " is revived with another payload, as message " in revived


def test_the_demo_draws_on_a_terminal_and_ctrl_c_adds_up(shell: Shell) -> None:
    ended = shell.on_terminal("demo", "--file", "demo.db", interrupt_at="recent events")

    assert ended.code == 0, ended.out
    assert "deliveries, one copy per group" in ended.out
    assert "schedule: every 3 seconds, in Asia/Tokyo" in ended.out
    assert re.search(r"✓ .*\d+ published = \d+ handled", ended.out)
    assert "✗" not in ended.out
