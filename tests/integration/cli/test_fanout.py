"""`fanout`: the progress of shards, planning now, and planning policies."""

import re

import pytest

from tests.integration.cli.shell import Shell

ETL = """
from mainspring import Mainspring, Slice

app = Mainspring("sqlite:///etl.db", name="etl")


@app.fanout("etl", "payments", cron="0 2 * * *", jitter="1m")
def tenants():
    yield from ("acme", "globex", "initech")


@tenants.slices()
async def load(part: Slice) -> None: ...
"""
APP = ("--app", "etl:app")


@pytest.fixture
def etl(shell: Shell) -> Shell:
    """A directory with an app that has a fan-out, declared."""
    (shell.directory / "etl.py").write_text(ETL)
    assert shell("declare", "etl:app").code == 0
    return shell


def test_a_fan_out_is_planned_listed_and_shown(etl: Shell) -> None:
    before, run, again, listed, shown, page, as_json = etl.several(
        ("fanout", "list", "--json", *APP),
        ("fanout", "run", "etl", "payments", *APP),
        ("fanout", "run", "etl", "payments", "--shard", "acme", "--json", *APP),
        ("fanout", "list", "--url", "sqlite:///etl.db"),
        ("fanout", "show", "etl", "payments", "--json", *APP),
        ("fanout", "show", "etl", "payments", "--behind", "--limit", 1, *APP),
        ("fanout", "show", "etl", "payments", "--behind", "--limit", 1, "--json", *APP),
    )
    hint = page.out.splitlines()[-1]
    second = etl("fanout", "show", "etl", "payments", "--behind", "--limit", 1, *hint.split()[-2:], "--json", *APP)

    [view] = before.json
    assert (view["topic"], view["work"], view["rhythm"], view["shards"]) == ("etl", "payments", "0 2 * * *", 0)
    assert run.out == "etl payments: 3 slices\n"
    assert (again.json["published"], again.json["skipped"]) == (0, {"unfinished": 1})
    header, row = listed.out.splitlines()
    assert header.split()[:7] == ["TOPIC", "WORK", "RHYTHM", "NEXT", "SHARDS", "COMPLETED", "BEHIND"]
    assert row.split()[:2] == ["etl", "payments"]
    assert (shown.json["behind"], shown.json["jitter"], shown.json["coordinator"]) == (3, 60.0, None)
    assert [each["shard"] for each in shown.json["cursors"]] == ["acme", "globex", "initech"]
    assert re.search(r"^coordinator +none$", page.out, re.MULTILINE)
    assert hint == f"There is more: add --cursor {as_json.json['cursor']}"
    assert "globex" not in page.out
    assert [each["shard"] for each in second.json["cursors"]] == ["globex"]


def test_policies_are_edited_shown_and_reset(etl: Shell) -> None:
    work, shard, shown, reset, nothing, audit = etl.several(
        ("fanout", "edit", "etl", "payments", "--every", "1d", *APP),
        ("fanout", "edit", "etl", "payments", "--shard", "acme", "--disabled", "--jitter", "5m", "--json", *APP),
        ("fanout", "show", "etl", "payments", *APP),
        ("fanout", "reset", "etl", "payments", "--shard", "acme", *APP),
        ("fanout", "reset", "etl", "payments", "--shard", "acme", "--json", *APP),
        ("fanout", "show", "etl", "payments", "--json", *APP),
    )

    assert work.out == "etl payments: every 1d\n"
    assert (shard.json["shard"], shard.json["enabled"], shard.json["jitter"]) == ("acme", False, 300.0)
    assert "1d at least" in shown.out
    assert "disabled, jitter 5m, by " in shown.out
    assert reset.out == "etl payments, shard acme follows the policy of its work again\n"
    assert nothing.json["reset"] is False
    assert [each["shard"] for each in audit.json["policies"]] == [None]


def test_cursors_are_moved_and_those_with_an_unfinished_slice_stay(etl: Shell) -> None:
    _, unfinished, asked, both, neither, _, moved = etl.several(
        ("fanout", "run", "etl", "payments", *APP),
        ("fanout", "seek", "etl", "payments", "--to-start", "--yes", *APP),
        ("fanout", "seek", "etl", "payments", "--to-start", *APP),
        ("fanout", "seek", "etl", "payments", "--to-start", "--to", "2026-11-01", "--yes", *APP),
        ("fanout", "seek", "etl", "payments", "--yes", *APP),
        ("groups", "retire", "load", "--yes", *APP),
        ("fanout", "seek", "etl", "payments", "--shard", "acme", "--to", "2026-11-01T02:00", "--yes", "--json", *APP),
    )

    assert unfinished.out == "etl payments: 0 cursors moved to the start; not moved: 3 with an unfinished slice\n"
    assert (asked.code, "pass --yes" in asked.err) == (2, True)
    assert [each.err for each in (both, neither)] == 2 * ["error: give --to TIME, or --to-start, and not both\n"]
    assert (moved.json["moved"], moved.json["shard"]) == (1, "acme")
    shown = etl("fanout", "show", "etl", "payments", "--json", *APP)
    assert shown.json["cursors"][0]["completed"] == "2026-11-01T02:00:00Z"


def test_what_cannot_be_done_says_what_to_do_instead(etl: Shell) -> None:
    nowhere, unknown, nobody, empty, missing = etl.several(
        ("fanout", "run", "etl", "payments", "--url", "sqlite:///etl.db"),
        ("fanout", "show", "etl", "paymnts", *APP),
        ("fanout", "run", "etl", "payments", "--shard", "acmee", *APP),
        ("fanout", "edit", "etl", "payments", *APP),
        ("fanout", "run", "elt", "payments", *APP),
    )

    assert nowhere.complaint.endswith("the planner is in the application's code: give --app MODULE:APP")
    assert "there is no fan-out 'etl paymnts'. Did you mean 'etl payments'?" in unknown.complaint
    assert "yields no shard 'acmee'" in nobody.complaint
    assert empty.complaint.endswith("nothing to set: give --every, --jitter, --enabled or --disabled")
    assert "no planner here yields the shards of 'elt payments'. Did you mean 'etl payments'?" in missing.complaint


def test_no_fan_outs_are_no_error(shell: Shell) -> None:
    assert shell("fanout", "list", "--app", "shop:app").out.startswith("No fan-outs.")
