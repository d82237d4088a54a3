"""`inbox`: messages of others, listed and released."""

import re
import sqlite3
from contextlib import closing
from datetime import timedelta

import pytest

from mainspring import Mainspring
from tests.integration.cli.shell import Shell

HOURS = timedelta(hours=2)


@pytest.fixture
def received(shell: Shell) -> Shell:
    """A database to which five messages have come, the first of them two hours ago."""
    file = shell.directory / "inbox.db"
    app = Mainspring(f"sqlite:///{file}", name="shop")
    inbox = app.sync.inbox
    inbox.admit("evt_1", "stripe", hash="one")
    inbox.admit("evt_1", "stripe", hash="two")
    inbox.done(inbox.admit("evt_2", "stripe"))
    inbox.failed(inbox.admit("evt_3", "stripe"), error="no money\nat all")
    inbox.dead(inbox.admit("evt_4", "paypal"), error="unreadable")
    inbox.admit("evt_4", "stripe")
    app.sync.close()
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute(
            "UPDATE mainspring_inbox SET changed_at = changed_at - ? WHERE message_id = 'evt_1'",
            (HOURS // timedelta(microseconds=1),),
        )
    shell.environment["MAINSPRING_URL"] = "sqlite:///inbox.db"
    return shell


def test_messages_are_listed_for_people_and_programs(received: Shell) -> None:
    listed, as_json, dead, stuck, none = received.several(
        ("inbox", "list"),
        ("inbox", "list", "--json"),
        ("inbox", "list", "--status", "dead", "--source", "paypal", "--group", "shop"),
        ("inbox", "list", "--stuck"),
        ("inbox", "list", "--id", "evt_9"),
    )

    header, *lines = listed.out.splitlines()
    assert header.split()[:6] == ["ID", "SOURCE", "GROUP", "STATUS", "ATTEMPTS", "CHANGED"]
    assert [line.split()[:5] for line in lines[:5]] == [
        ["evt_4", "stripe", "shop", "processing", "1"],
        ["evt_4", "paypal", "shop", "dead", "1"],
        ["evt_3", "stripe", "shop", "seen", "1"],
        ["evt_2", "stripe", "shop", "done", "1"],
        ["evt_1", "stripe", "shop", "processing", "1"],
    ]
    assert "mainspring inbox release ID" in lines[5]
    assert lines[2].endswith("no money")
    assert "redelivered with another hash" in lines[4]
    assert [each["message_id"] for each in as_json.json] == ["evt_4", "evt_4", "evt_3", "evt_2", "evt_1"]
    assert as_json.json[2]["error"] == "no money\nat all"
    assert "unreadable" in dead.out
    assert "evt_3" not in dead.out
    assert [line.split()[0] for line in stuck.out.splitlines()[1:2]] == ["evt_1"]
    assert "2h ago" in stuck.out
    assert "No matches" in none.out


def test_pages_follow_each_other(received: Shell) -> None:
    first, as_json = received.several(
        ("inbox", "list", "--limit", "4"),
        ("inbox", "list", "--limit", "4", "--json"),
    )
    hint = re.search(r"^There is more: add (--cursor \S+)$", first.out, re.MULTILINE)
    assert hint is not None
    second = received("inbox", "list", "--limit", "4", *hint[1].split(), "--json")

    assert [each["message_id"] for each in second.json] == ["evt_1"]
    assert (as_json.err, second.err) == (f"{hint[0]}\n", "")


def test_a_message_is_released_by_its_id(received: Shell) -> None:
    released, again, done, dead, several, unknown = received.several(
        ("inbox", "release", "evt_1"),
        ("inbox", "release", "evt_1"),
        ("inbox", "release", "evt_2"),
        ("inbox", "release", "evt_4", "--source", "paypal", "--json"),
        ("inbox", "release", "evt_4"),
        ("inbox", "release", "evt_9"),
    )
    app = Mainspring(f"sqlite:///{received.directory}/inbox.db", name="shop")
    let_in = app.sync.inbox.admit("evt_1", "stripe", hash="one")
    notes = [(each.action, each.subject, each.by.endswith("(cli)")) for each in app.sync.audit()]
    app.sync.close()

    assert released.out == "evt_1 of stripe is released: its redelivery is admitted\n"
    assert again.complaint == "'evt_1' needs no release: its status is seen, so its redelivery is admitted"
    assert done.complaint.startswith("'evt_2' is done: releasing it would repeat its effects")
    assert dead.json == {"id": "evt_4", "source": "paypal", "group": "shop", "released": True}
    assert several.complaint == (
        "there are 2 messages 'evt_4': select one by --source paypal --group shop, --source stripe --group shop"
    )
    assert unknown.complaint == "there is no message 'evt_9': it was never received, or was pruned"
    assert (let_in.admitted, let_in.attempts) == (True, 2)
    assert notes == [("inbox release", "evt_4", True), ("inbox release", "evt_1", True)]


def test_health_names_what_is_stuck_and_prune_forgets_what_is_over(received: Shell) -> None:
    health, pruned, left = received.several(
        ("health", "--json"), ("prune", "--inbox", "0s", "--yes", "--json"), ("inbox", "list", "--json")
    )

    (check,) = (each for each in health.json["checks"] if each["name"] == "inbox")
    assert (check["status"], check["data"]["count"], check["data"]["example"]["message_id"]) == ("degraded", 1, "evt_1")
    assert pruned.json["inbox"] == 3
    assert [each["status"] for each in left.json] == ["processing", "processing"]


def test_an_inbox_to_which_nothing_came_says_so(stocked: Shell) -> None:
    empty, stuck = stocked.several(("inbox", "list"), ("inbox", "list", "--stuck"))

    assert empty.out == "The inbox is empty.\n"
    assert stuck.out == "Nothing is stuck.\n"
