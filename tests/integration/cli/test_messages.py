"""`messages`, `publish` and `health`: what is stored, put there and asked about."""

import re
import sqlite3
from datetime import UTC, datetime, timedelta

from tests.integration.cli.shell import Shell


def test_live_deliveries_are_listed_as_json(stocked: Shell) -> None:
    (timer,) = stocked("messages", "list", "--json").json

    assert (timer["topic"], timer["group"], timer["key"]) == ("payments.timeout", "expire", "order:1")
    assert (timer["state"], timer["attempt"], timer["priority"]) == ("scheduled", 0, 2)
    due, published = map(datetime.fromisoformat, (timer["due_at"], timer["published_at"]))
    assert due - published == timedelta(hours=15)
    assert (timer["kind"], timer["preview"]) == ("delayed", '{"id":1}')


def test_a_listing_that_is_no_terminal_is_plain_and_whole(stocked: Shell) -> None:
    (timer,) = stocked("messages", "list", "--json").json

    header, line = stocked("messages", "list").out.splitlines()

    assert header.split() == ["ID", "STATE", "TOPIC", "GROUP", "KEY", "DUE", "ATTEMPT", "KIND", "NOTE", "PAYLOAD"]
    assert line.split()[:5] == [timer["message_id"], "scheduled", "payments.timeout", "expire", "order:1"]
    assert re.search(r"  in 1\dh  ", line)
    assert "\x1b" not in header + line


def test_a_listing_on_a_terminal_has_colour(stocked: Shell) -> None:
    (timer,) = stocked("messages", "list", "--json").json

    shown = stocked.on_terminal("messages", "list").out

    assert timer["message_id"] in shown
    assert "\x1b[36mscheduled" in shown


def test_a_listing_is_narrowed(stocked: Shell) -> None:
    counts = {
        ("--state", "done"): 4,
        ("--state", "done", "--group", "analytics"): 3,
        ("--state", "dead"): 2,
        ("--state", "dead", "--limit", "1"): 1,
        ("--state", "parked"): 1,
        ("--state", "retrying"): 0,
        ("--state", "cancelled"): 0,
        ("--topic", "payments.timeout", "--key", "order:1"): 1,
        ("--kind", "delayed"): 1,
        ("--kind", "recurring"): 0,
        ("--topic", "orders.placed"): 0,
        ("--namespace", "elsewhere"): 0,
    }

    answers = stocked.several(*(("messages", "list", "--json", *narrowed) for narrowed in counts))

    assert [len(answer.json) for answer in answers] == list(counts.values())


def test_messages_are_searched_for_in_every_state(stocked: Shell) -> None:
    counts = {
        ("paper",): 2,
        ("PAPER", "--state", "dead"): 1,
        ("--correlation", "basket:7"): 2,
        ("id", "--topic", "payments.timeout", "--key", "order:1"): 1,
        ("id", "--kind", "delayed"): 1,
        ("[1,2]",): 1,
        ("no such text",): 0,
    }

    answers = stocked.several(*(("messages", "search", "--json", *sought) for sought in counts))

    assert [len(answer.json) for answer in answers] == list(counts.values())
    assert {each["state"] for each in answers[0].json} == {"dead", "done"}
    header, first, *_, hint = stocked("messages", "search", "paper").out.splitlines()
    assert (header.split()[0], header.split()[-1]) == ("ID", "PAYLOAD")
    assert first.endswith('{"id":2,"jam":"paper"}')
    assert hint == "Next: mainspring messages show ID, or messages chain ID"
    assert stocked("messages", "search", "no such text").out == "No matches. Remove a filter to see more.\n"
    for words in ((), ("--state", "any")):
        complaint = stocked("messages", "search", *words).complaint
        assert complaint.startswith("nothing to search for: give TEXT, --correlation")
        assert complaint.endswith("or a --state but any")
    id = answers[0].json[0]["message_id"]
    assert stocked("messages", "search", id).out.splitlines()[-1].endswith(f"mainspring messages show {id}")


def test_a_chain_is_shown_from_the_first_cause_on(stocked: Shell) -> None:
    first, _ = stocked("dead", "list", "--json").json
    second = stocked("dead", "revive", first["message_id"], "--payload", '{"id": 3}', "--json").json["message_id"]

    header, cause, this = stocked("messages", "chain", second).out.splitlines()
    as_json = stocked("messages", "chain", first["message_id"], "--json").json

    assert header.split() == ["ID", "TOPIC", "GROUP", "KEY", "STATE", "PUBLISHED"]
    assert cause.split()[:6] == [*("cause", first["message_id"], "orders.placed"), "analytics,", "send_receipt", "done"]
    assert this.startswith(f"└ this  {second}")
    assert this.split()[3:6] == ["orders.placed", "send_receipt", "ready"]
    assert [each["id"] for each in as_json["caused"]] == [second]
    assert (as_json["message"]["id"], as_json["causes"], as_json["more"]) == (first["message_id"], [], False)
    unknown = "01890000-0000-7000-8000-000000000001"
    assert stocked("messages", "chain", unknown).complaint.startswith(f"there is no message {unknown}")


CHAINED = """
import asyncio

from mainspring import NO_RETRY, Context, Mainspring

app = Mainspring("sqlite:///chained.db", name="chained", auto_migrate=True)


@app.consumer("order", retry=NO_RETRY)
async def take(order: dict, ctx: Context) -> None:
    if not order["ok"]:
        await ctx.publish("alarm", 1)
        raise RuntimeError("no")
    await ctx.publish("parcel", order)


@app.consumer("parcel", "alarm")
async def tell(value: object) -> None: ...


async def main() -> None:
    async with app.worker():
        receipt = await app.publish("order", {"ok": False})
        while not (letters := list(await app.dead.list())):
            await asyncio.sleep(0.02)
        await app.dead.revive(letters[0].message_id, payload={"ok": True})
        while len(list(await app.messages.list("done", group="tell"))) < 2:
            await asyncio.sleep(0.02)
    print(receipt.id)


if __name__ == "__main__":
    asyncio.run(main())
"""


def test_what_a_replacement_caused_is_shown_below_the_replacement(shell: Shell) -> None:
    (shell.directory / "chained.py").write_text(CHAINED)
    first = shell.python("chained.py").strip()

    _, *lines = shell("messages", "chain", first, "--app", "chained:app").out.splitlines()
    handled = shell("messages", "list", "--state", "done", "--group", "tell", "--app", "chained:app").out.splitlines()

    told = [" ".join(re.sub(r" [0-9a-f-]{36} ", " ", each).split()[:-1]) for each in lines]
    assert [each.removesuffix(" now").removesuffix(" ago") for each in told] == [
        "this order take (replaced)",
        "└ caused alarm tell done",
        "└ replacement order take done",
        "└─ caused parcel tell done",
    ]
    assert handled[0].split()[:6] == ["ID", "TOPIC", "GROUP", "KEY", "HANDLED", "WORKER"]


def test_a_time_without_offset_is_this_machines_and_the_instant_is_printed(stocked: Shell) -> None:
    stocked.environment["TZ"] = "Europe/Berlin"

    message = ("publish", "payments.timeout", '{"id": 2}', "--at")
    naive, aware = stocked.anew(*message, "2087-01-01T09:00"), stocked(*message, "2087-01-01T09:00:00+02:00")

    assert naive.out.rstrip().endswith(", at 2087-01-01 09:00:00+01:00 (2087-01-01 08:00:00 UTC)")
    assert aware.out.rstrip().endswith(", at 2087-01-01 09:00:00+02:00 (2087-01-01 07:00:00 UTC)")


def test_pages_follow_each_other(stocked: Shell) -> None:
    first = stocked("messages", "list", "--state", "dead", "-n", "1").out
    hint = first.splitlines()[-1]

    second = stocked("messages", "list", "--state", "dead", "--json", *hint.split()[-2:]).json

    assert hint.startswith("There is more: add --cursor ")
    assert [each["message_id"] in first for each in second] == [False]


def test_an_empty_listing_teaches(shell: Shell) -> None:
    sayings = {
        ("--state", "live"): "Nothing is waiting or running. To publish: mainspring publish",
        ("--state", "dead"): "No dead letters.",
        ("--state", "done"): "keep='all'",
        ("--state", "parked"): "No parked messages.",
        ("--state", "retrying"): "No retrying messages.",
        ("--topic", "x"): "No matches.",
    }

    answers = shell.several(*(("messages", "list", "--app", "shop:app", *narrowed) for narrowed in sayings))

    for answer, said in zip(answers, sayings.values(), strict=True):
        assert (answer.code, said in answer.out) == (0, True), said


def test_a_message_is_shown_with_its_runs(stocked: Shell) -> None:
    done = stocked("messages", "list", "--state", "done", "--group", "send_receipt", "--json").json[0]

    shown = stocked("messages", "show", done["message_id"]).out
    as_json = stocked("messages", "show", done["message_id"], "--json").json

    assert "header origin  web" in shown
    assert '{\n  "id": 1\n}' in shown
    assert (as_json["payload"], as_json["payload_encoding"]) == ({"id": 1}, "json")
    assert as_json["correlation_id"] == "basket:7"
    assert {run["group"]: run["status"] for run in as_json["runs"]} == {"send_receipt": "done", "analytics": "done"}


def test_bytes_are_shown_as_base64(stocked: Shell) -> None:
    (parked,) = stocked("messages", "list", "--state", "parked", "--json").json
    with sqlite3.connect(stocked.directory / "shop.db") as connection:
        connection.execute(
            "UPDATE mainspring_message SET payload = ?, content_type = 'image/png' WHERE topic = 'nobody.listens'",
            (b"\x89PNG",),
        )
    connection.close()

    as_json = stocked("messages", "show", parked["message_id"], "--json").json

    assert (as_json["payload"], as_json["payload_encoding"]) == ("iVBORw==", "base64")
    assert "payload, image/png, as base64" in stocked("messages", "show", parked["message_id"]).out


def test_a_message_is_cancelled_by_topic_and_key(stocked: Shell) -> None:
    cancel = ("messages", "cancel", "--topic", "payments.timeout", "--key", "order:1")

    assert stocked(*cancel).out == "1 delivery cancelled\n"
    assert stocked(*cancel).out == "nothing to cancel: no matching delivery is waiting or running\n"
    assert stocked("messages", "list", "--json").json == []


def test_a_message_is_cancelled_by_its_id(stocked: Shell) -> None:
    (parked,) = stocked("messages", "list", "--state", "parked", "--json").json

    ended = stocked("messages", "cancel", parked["message_id"], "--reason", "a test", "--json")

    assert ended.json == {"cancelled": 1, "asked": 0}


def test_what_is_published_says_what_becomes_of_it(stocked: Shell) -> None:
    at = datetime.now(UTC) + timedelta(hours=2, seconds=30)
    timer = stocked("publish", "payments.timeout", "--at", at.isoformat(), "--key", "order:9", "--priority", "high")
    parked = stocked("publish", "nobody.listens", '"now"')

    assert timer.out.startswith("stored ")
    assert "expire receives it in 2h, at " in timer.out
    assert "parked: no group subscribes to nobody.listens yet" in parked.out


def test_a_payload_comes_from_stdin_and_an_id_is_stored_once(stocked: Shell) -> None:
    identity = "01890000-0000-7000-8000-000000000001"
    publish = ("publish", "orders.placed", "-", "--message-id", identity, "--json", "--delay", "1d")

    first, again, other = (stocked(*publish, stdin=each) for each in ('{"id":\n 9}', '{"id": 9}', "{}"))

    assert (first.json, again.json["status"]) == ({"id": identity, "status": "stored"}, "duplicate")
    assert (other.code, other.json["status"]) == (1, "conflict")
    assert stocked("messages", "show", identity, "--json").json["payload"] == {"id": 9}


def test_a_namespace_keeps_to_itself(stocked: Shell) -> None:
    mine = ("--url", "sqlite:///shop.db", "--namespace", "laptop")

    stocked("publish", "orders.placed", "{}", *mine)

    (parked,) = stocked("messages", "list", "--state", "parked", "--json", *mine).json
    assert parked["topic"] == "orders.placed"
    assert stocked("messages", "list", "--json").json[0]["topic"] == "payments.timeout"


def test_health_is_a_word_a_table_and_an_exit_code(stocked: Shell) -> None:
    degraded, as_json = stocked("health"), stocked("health", "--json")

    assert degraded.code == as_json.code == 1
    assert degraded.out.splitlines()[0] == "degraded"
    assert as_json.json["status"] == "degraded"
    assert {check["name"]: check["status"] for check in as_json.json["checks"]}["workers"] == "degraded"


def test_health_of_a_new_database_is_good(shell: Shell) -> None:
    before, _, after = shell.several(
        ("health", "--app", "shop:app"), ("migrate", "--app", "shop:app"), ("health", "--app", "shop:app", "--json")
    )

    assert (before.code, "there is no file shop.db" in before.out) == (2, True)
    assert (after.code, after.json["status"]) == (0, "healthy")


def test_health_of_a_database_that_cannot_be_reached_is_bad(shell: Shell) -> None:
    ended = shell("health", "--url", "postgresql://nobody@127.0.0.1:1/nothing")

    assert ended.code == 2
    assert ended.out.splitlines()[0] == "unhealthy"


def test_columns_without_room_are_named_unless_they_are_empty(stocked: Shell) -> None:
    shown = stocked.on_terminal("messages", "list", "--state", "dead").out

    assert "No room for attempt, kind, note, payload: widen the terminal, or add --json" in shown
