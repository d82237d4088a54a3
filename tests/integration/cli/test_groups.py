"""`groups` and `declare`: who receives what."""

from mainspring import Mainspring
from tests.integration.cli.shell import Shell


def test_groups_are_listed_with_their_load(stocked: Shell) -> None:
    groups = {each["name"]: each for each in stocked("groups", "list", "--json").json}

    assert sorted(groups) == ["analytics", "expire", "send_receipt"]
    assert groups["send_receipt"]["patterns"] == ["orders.placed"]
    assert groups["send_receipt"]["handler"] == "shop.send_receipt"
    assert (groups["send_receipt"]["dead"], groups["send_receipt"]["handled"]) == (2, 1)
    assert (groups["expire"]["scheduled"], groups["expire"]["workers"]) == (1, 0)


def test_groups_are_listed_for_people(stocked: Shell) -> None:
    header, *lines = stocked("groups", "list").out.splitlines()

    assert header.split()[:8] == ["GROUP", "STATE", "TOPICS", "READY", "SCHEDULED", "RUNNING", "LAPSED", "DEAD"]
    assert lines[2].split()[:8] == ["send_receipt", "unserved", "orders.placed", "0", "0", "0", "0", "2"]
    assert lines[3].startswith("1 message parked")


def test_no_groups_teach_how_to_declare_some(shell: Shell) -> None:
    said = shell("groups", "list", "--app", "shop:app").out

    assert "mainspring declare MODULE:APP" in said


def test_a_group_is_paused_with_a_reason_and_resumed(stocked: Shell) -> None:
    paused, listed, as_json, resumed, after = stocked.several(
        ("groups", "pause", "analytics", "--reason", "too loud", "--url", "sqlite:///shop.db"),
        ("groups", "list"),
        ("groups", "list", "--json"),
        ("groups", "resume", "analytics", "--json"),
        ("groups", "list"),
    )

    (view,) = (each for each in as_json.json if each["name"] == "analytics")
    assert "mainspring groups resume analytics --url sqlite:///shop.db" in paused.out
    assert listed.out.splitlines()[1].split()[:2] == ["analytics", "paused"]
    assert "(cli): too loud" in listed.out
    assert (view["pause_reason"], view["paused_by"].endswith("(cli)")) == ("too loud", True)
    assert resumed.json == {"group": "analytics", "paused": False}
    assert "paused" not in after.out


def test_a_group_is_retired_with_what_waits_for_it(stocked: Shell) -> None:
    asked = stocked("groups", "retire", "expire")
    retired = stocked("groups", "retire", "expire", "--yes")

    assert asked.complaint.endswith("It would ask: Retire expire and drop 1 delivery?")
    assert retired.out == "expire is retired, 1 delivery dropped\n"
    assert [each["name"] for each in stocked("groups", "list", "--json").json] == ["analytics", "send_receipt"]


def test_a_group_is_retired_only_when_said_so(stocked: Shell) -> None:
    ended = stocked.on_terminal("groups", "retire", "expire", typed="\n")

    assert (ended.code, "Nothing retired." in ended.out) == (1, True)
    assert len(stocked("groups", "list", "--json").json) == 3


def test_groups_are_declared_without_a_worker(shell: Shell) -> None:
    shown, as_json = shell("declare", "shop:app"), shell("declare", "shop:app", "--json").json

    assert shown.out.splitlines()[-1] == "3 groups declared. Next: mainspring worker shop:app"
    assert [each["group"] for each in as_json] == ["send_receipt", "analytics", "expire"]
    stored = shell("publish", "orders.placed", "{}", "--app", "shop:app", "--delay", "1h")
    assert "send_receipt receives it in 1h" in stored.out


def test_declare_counts_what_the_code_has_and_not_what_a_namesake_stored(shell: Shell) -> None:
    made = 'app = Mainspring("sqlite:///own.db", name="own", auto_migrate=True)\n'
    head = f"from mainspring import Mainspring, every\n\n{made}"
    timed = "\n\n@app.recurring(every('1h'))\ndef {}() -> None: ...\n"
    (shell.directory / "timed.py").write_text(head + timed.format("one") + timed.format("two"))
    (shell.directory / "plain.py").write_text(head + "\n\n@app.consumer('a')\ndef three(x: int) -> None: ...\n")

    of_timed, of_plain = shell("declare", "timed:app"), shell("declare", "plain:app")

    assert of_timed.out.splitlines()[-1] == "2 groups and 2 schedules declared. Next: mainspring worker timed:app"
    assert of_plain.out.splitlines()[-1] == "1 group declared. Next: mainspring worker plain:app"


def test_an_app_that_has_only_a_queue_needs_no_worker(shell: Shell) -> None:
    text = 'from mainspring import Mainspring\n\napp = Mainspring("sqlite:///q.db", name="q", auto_migrate=True)\n'
    (shell.directory / "qonly.py").write_text(text + 'packing = app.queue("packing", "stock.reserved")\n')

    declared = shell("declare", "qonly:app")

    assert declared.out.splitlines()[-1] == "1 group declared. Next: start the program that claims from packing"


def test_columns_without_room_are_named_on_a_terminal(stocked: Shell) -> None:
    narrow = stocked.on_terminal("groups", "list").out
    stocked.environment["COLUMNS"] = "200"
    wide = stocked.on_terminal("groups", "list").out

    assert "No room for lapsed, handled, failed, served: widen the terminal, or add --json" in narrow
    assert "No room" not in wide


def test_lapsed_claims_of_a_group_are_released(stocked: Shell) -> None:
    queue = Mainspring(f"sqlite:///{stocked.directory}/shop.db", name="shop").sync.queue("analytics")
    app_published = stocked("publish", "orders.placed", "{}", "--app", "shop:app")
    assert app_published.code == 0
    [_] = queue.claim(hold="1ms")

    released = stocked("groups", "release", "analytics")
    again = stocked("groups", "release", "analytics", "--limit", "5", "--json")
    line, *_ = stocked("audit", "--json").json

    assert released.out == "analytics: 1 lapsed claim released\n"
    assert again.json == {"group": "analytics", "released": 0, "left": 0, "busy": 0}
    assert (line["action"], line["subject"], line["detail"]) == ("release", "analytics", "1 released")
    assert line["by"].endswith("(cli)")
    [item] = queue.claim()
    assert (item.attempt, item.suspect) == (2, False)


def test_a_release_tells_what_is_left_to_be_taken_over(stocked: Shell) -> None:
    queue = Mainspring(f"sqlite:///{stocked.directory}/shop.db", name="shop").sync.queue("analytics")
    stocked("publish", "orders.placed", "{}", "--app", "shop:app")
    [_] = queue.claim(hold="1ms")
    while queue.reap(hold="1ms") is None:
        pass

    released = stocked("groups", "release", "analytics")

    assert released.out == "analytics: 0 lapsed claims released; 1 left to be taken over one by one, as suspects\n"
