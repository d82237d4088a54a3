"""`joins`: what is open, whom it waits for, and cancelling it."""

import re
from uuid import uuid4

import pytest

from tests.integration.cli.shell import Shell

OPEN = """
from shop import app, expire, send_receipt

with_key = app.sync.join(
    [(send_receipt, {"id": 1}), (send_receipt, {"id": 2}), (expire, {"id": 3})],
    then=(expire, {"id": 4}), failed=(send_receipt, {"id": 5}), key="order:1", correlation_id="basket:7",
)
app.sync.cancel(with_key.members[0])
chain = expire.sync.send({"id": 6}, delay="1h", then=(expire, {"id": 7}))
print(with_key.id, *with_key.members, chain.id)
"""


@pytest.fixture
def opened(shell: Shell) -> tuple[Shell, list[str]]:
    """A database with two open joins, and the ids: of the first, of its members, of the second's only member."""
    shell.environment["MAINSPRING_URL"] = "sqlite:///shop.db"
    (shell.directory / "open.py").write_text(OPEN)
    return shell, shell.python("open.py").split()


def test_open_joins_are_listed(opened: tuple[Shell, list[str]]) -> None:
    shell, (id, _, second, *_, chained) = opened

    plain, as_json, paged = shell.several(("joins", "list"), ("joins", "list", "--json"), ("joins", "list", "-n", "1"))

    header, first, last = plain.out.splitlines()
    titles = ["ID", "THEN", "ENDED", "FAILED", "OPENED", "WAITS FOR", "FAILED THEN", "KEY", "CORRELATION"]
    assert re.split(r"  +", header.strip()) == titles
    assert first.startswith(id)
    assert re.split(r"  +", first)[1:4] == ["expire", "1 of 3", "1"]
    assert re.split(r"  +", first)[5:] == ["send_receipt, ready", "send_receipt", "order:1", "basket:7"]
    assert re.split(r"  +", last)[1:4] == ["expire", "0 of 1", "0"]
    assert "expire, scheduled" in last
    one, other = as_json.json
    assert (one["id"], one["members"], one["ended"], one["failed"]) == (id, 3, 1, 1)
    assert (one["then"], one["otherwise"]["group"]) == (
        {"topic": "payments.timeout", "group": "expire"},
        "send_receipt",
    )
    assert (one["oldest"]["message_id"], other["oldest"]["message_id"]) == (second, chained)
    assert re.fullmatch(r"There is more: add --cursor \w+", paged.out.splitlines()[-1])


def test_one_is_shown_with_its_open_members(opened: tuple[Shell, list[str]]) -> None:
    shell, (id, _, second, third, _) = opened

    plain, as_json, paged = shell.several(
        ("joins", "show", id),
        ("joins", "show", id, "--json"),
        ("joins", "show", id, "-n", "1"),
    )
    hint = paged.out.splitlines()[-1]
    later = shell("joins", "show", id, *hint.split()[-2:])

    assert re.search(r"members +1 of 3 ended, 1 of them failed\n", plain.out)
    assert re.search(r"then +expire, on payments.timeout\n", plain.out)
    assert re.search(r"failed +send_receipt, on orders.placed\n", plain.out)
    assert re.search(r"key +order:1\ncorrelation +basket:7\n", plain.out)
    lines = plain.out.partition("unfinished members\n")[2].splitlines()
    assert [line.split()[0] for line in lines] == ["ID", second, third]
    assert [each["message_id"] for each in as_json.json["open"]] == [second, third]
    assert (as_json.json["id"], as_json.json["correlation_id"]) == (id, "basket:7")
    assert hint.startswith("There is more: add --cursor ")
    assert later.out.splitlines()[-1].split()[0] == third


def test_one_is_cancelled(opened: tuple[Shell, list[str]]) -> None:
    shell, (id, *_) = opened

    done, again, shown, listed, as_json = shell.several(
        ("joins", "cancel", id, "--reason", "obsolete"),
        ("joins", "cancel", id),
        ("joins", "show", id),
        ("joins", "list"),
        ("joins", "cancel", id, "--json"),
    )

    assert done.out == "2 members cancelled\n"
    assert again.out == "nothing to cancel: all members have ended\n"
    assert shown.out.endswith("none: the next turn of a scheduler publishes the follow-up\n")
    assert "the next scheduler turn" in listed.out
    assert as_json.json == {"cancelled": 0, "asked": 0}


def test_where_none_is_open_it_says_so(stocked: Shell) -> None:
    listed, as_json = stocked.several(("joins", "list"), ("joins", "list", "--json"))

    assert listed.out == "No open joins.\n"
    assert as_json.json == []


def test_who_names_something_else_is_told_what_it_is(opened: tuple[Shell, list[str]]) -> None:
    shell, (id, member, *_) = opened
    nothing = uuid4()

    of_member, unknown, no_id, no_limit = shell.several(
        ("joins", "show", member),
        ("joins", "cancel", nothing),
        ("joins", "show", "42"),
        ("joins", "list", "-n", "0"),
    )

    assert f"a member of the join {id}: give that id. See `mainspring joins list`" in of_member.complaint
    assert unknown.complaint == f"there is no open join {nothing}: it never was, or is over"
    assert no_id.complaint.startswith("ID takes an id, as shown in lists, not '42'")
    assert no_limit.complaint == "--limit 0 must be 1 or more"
