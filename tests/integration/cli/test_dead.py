"""`dead`: looking at what was given up, reviving it, discarding it."""

import pytest

from tests.integration.cli.shell import Shell, line_with, stop


def test_dead_letters_are_listed_with_their_errors(stocked: Shell) -> None:
    newest, oldest = stocked("dead", "list", "--json").json
    header, first, second, hint = stocked("dead", "list").out.splitlines()

    assert newest["error"].startswith("RuntimeError: the printer is jammed by ink")
    assert (oldest["group"], oldest["attempt"], oldest["state"]) == ("send_receipt", 1, "dead")
    assert header.split() == ["ID", "GROUP", "TOPIC", "DIED", "ATTEMPTS", "ERROR", "KIND", "PAYLOAD"]
    assert first.startswith(newest["message_id"])
    assert "  RuntimeError: the printer is jammed by paper  " in second
    assert second.endswith('immediate  {"id":2,"jam":"paper"}')
    assert hint.startswith("Next: mainspring dead show ID")


def test_dead_letters_are_found_by_their_error(stocked: Shell) -> None:
    (found,) = stocked("dead", "list", "--error", "BY PAPER", "--json").json

    assert "paper" in found["error"]
    assert stocked("dead", "list", "--error", "fire").out == "No matches. Remove a filter to see more.\n"


def test_causes_are_listed_and_chosen_by(stocked: Shell) -> None:
    told = stocked("dead", "causes", "--json").json
    most, *others = told["rows"]
    header, line, *rest = stocked("dead", "causes", "--group", "send_receipt").out.splitlines()

    assert {each["count"] for each in (most, *others)} == {1}, "what jams the printer is no number"
    assert (most["more"], told["more"]) == (False, False)
    assert header.split() == ["CAUSE", "GROUP", "DEAD", "FIRST", "LAST", "ERROR"]
    assert line.split()[:3] == [most["fingerprint"], "send_receipt", "1"]
    assert rest[-1].startswith("Next: mainspring dead list --cause CAUSE")
    (found,) = stocked("dead", "list", "--cause", most["fingerprint"], "--json").json
    assert found["error"] == most["error"]
    assert stocked("dead", "discard", "--cause", most["fingerprint"], "--yes").out == "1 dead letter discarded\n"
    assert len(stocked("dead", "list", "--json").json) == 1
    assert stocked("dead", "causes", "--group", "nobody").out == "No matches. Remove a filter to see more.\n"


def test_causes_that_are_left_out_are_told_of(stocked: Shell) -> None:
    *_, said, _next = stocked("dead", "causes", "--limit", "1").out.splitlines()

    assert said == "There are more causes: raise --limit, or name a --group"


def test_a_dead_letter_is_shown_with_its_traceback_and_no_escape_codes(stocked: Shell) -> None:
    identity = stocked("dead", "list", "--json").json[0]["message_id"]

    shown = stocked("dead", "show", identity).out
    as_json = stocked("dead", "show", identity, "--json").json

    assert "traceback, send_receipt, attempt 1" in shown
    assert "in send_receipt" in shown
    assert "mainspring/" not in shown
    assert "\x1b" not in shown
    assert as_json["payload"] == {"id": 3, "jam": "ink"}
    assert [run["status"] for run in as_json["runs"] if run["group"] == "send_receipt"] == ["dead"]


def test_one_dead_letter_is_revived(stocked: Shell) -> None:
    newest, oldest = stocked("dead", "list", "--json").json

    ended = stocked("dead", "revive", newest["message_id"], "--group", "send_receipt")

    assert ended.out == "1 dead letter revived\n"
    (revived,) = stocked("messages", "list", "--state", "ready", "--json").json
    assert (revived["message_id"], revived["attempt"]) == (newest["message_id"], 0)
    assert [each["message_id"] for each in stocked("dead", "list", "--json").json] == [oldest["message_id"]]


def test_one_dead_letter_is_revived_with_another_payload(stocked: Shell) -> None:
    newest, _ = stocked("dead", "list", "--json").json

    ended = stocked("dead", "revive", newest["message_id"], "--payload", "-", "--json", stdin='{"id": 3}')

    (fresh,) = stocked("messages", "list", "--state", "ready", "--json").json
    assert ended.json == {"revived": 1, "message_id": fresh["message_id"]}
    shown = stocked("messages", "show", fresh["message_id"], "--json").json
    assert (shown["payload"], shown["causation_id"]) == ({"id": 3}, newest["message_id"])
    old, new = (stocked("messages", "show", each["message_id"]).out for each in (newest, fresh))
    assert ["replaced", "by", fresh["message_id"]] in [line.split() for line in old.splitlines()]
    assert ["replaces", newest["message_id"]] in [line.split() for line in new.splitlines()]


def test_a_dead_letter_revived_with_another_payload_tells_its_new_id(stocked: Shell) -> None:
    newest, _ = stocked("dead", "list", "--json").json

    said = stocked("dead", "revive", newest["message_id"], "--payload", '{"id": 3}').out

    (fresh,) = stocked("messages", "list", "--state", "ready", "--json").json
    assert said == f"{newest['message_id']} is revived with another payload, as message {fresh['message_id']}\n"
    (line,) = stocked("audit", newest["message_id"], "--action", "replace", "--json").json
    assert line["detail"] == f"replaced in send_receipt by {fresh['message_id']}"


@pytest.mark.parametrize(
    ("chosen", "left"),
    [(["--all"], 0), (["--group", "send_receipt"], 0), (["--topic", "orders.placed"], 0), (["--error", "ink"], 1)],
)
def test_many_are_discarded_at_once(stocked: Shell, chosen: list[str], left: int) -> None:
    ended, after = stocked.several(("dead", "discard", *chosen, "--yes", "--json"), ("dead", "list", "--json"))

    assert ended.json == {"discarded": 2 - left}
    assert len(after.json) == left


def test_many_are_revived_at_once(stocked: Shell) -> None:
    assert stocked("dead", "revive", "--error", "jammed", "--yes").out == "2 dead letters revived\n"
    assert stocked("dead", "revive", "--error", "jammed", "--yes").out == "No dead letter matches.\n"


def test_nobody_is_asked_where_nobody_is(stocked: Shell) -> None:
    ended = stocked("dead", "discard", "--all")

    assert ended.complaint == (
        "this asks for confirmation, and there is no terminal: pass --yes. It would ask: Discard 2 dead letters?"
    )
    assert len(stocked("dead", "list", "--json").json) == 2


@pytest.mark.parametrize("json", [(), ("--json",)], ids=["text", "json"])
def test_a_person_at_the_terminal_is_asked(stocked: Shell, json: tuple[str, ...]) -> None:
    no = stocked.on_terminal("dead", "discard", "--all", *json, typed="n\n")
    yes = stocked.on_terminal("dead", "revive", "--all", typed="y\n")

    assert "Discard 2 dead letters? [y/N]" in no.out
    assert (no.code, "Nothing discarded." in no.out) == (1, True)
    assert (yes.code, "2 dead letters revived" in yes.out) == (0, True)


def test_ctrl_c_at_the_question_changes_nothing(stocked: Shell) -> None:
    ended = stocked.on_terminal("dead", "discard", "--all", interrupt_at="[y/N]", anew=True)

    assert ended.code == 130
    assert "Traceback" not in ended.out
    assert len(stocked("dead", "list", "--json").json) == 2


def test_the_same_traceback_of_several_attempts_is_shown_once(shell: Shell) -> None:
    text = (shell.directory / "shop.py").read_text()
    text = text.replace("NO_RETRY", "intervals(0, 0)").replace("import intervals(0, 0)", "import intervals")
    (shell.directory / "shop.py").write_text(text)
    with shell.started("worker", "shop:app") as worker:
        line_with(worker, "ready")
        shell("publish", "orders.placed", '{"id": 2, "jam": "paper"}', "--app", "shop:app")
        while not (dead := shell("dead", "list", "--json", "--app", "shop:app").json):
            pass
        stop(worker)

    shown = shell("dead", "show", dead[0]["message_id"], "--app", "shop:app").out

    assert "traceback, send_receipt, identical in attempts 1, 2, 3" in shown
    assert shown.count("Traceback (most recent call last)") == 1
