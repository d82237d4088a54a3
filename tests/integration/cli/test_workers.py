"""`workers`: who is at work, and draining them."""

from tests.integration.cli.shell import Shell, line_with, stop

HOLD = """
import asyncio
from datetime import timedelta
from shop import app
from mainspring.model.message import ALL_LEVELS, ClaimRequest
from mainspring.model.views import Beat

async def main():
    async with app:
        storage = await app._connection.storage("the test")
        await app.publish("orders.placed", {"id": 7})
        await storage.mailbox.claim([ClaimRequest("send_receipt", 1, ALL_LEVELS)], "node-1", timedelta(hours=1))
        await storage.upkeep.beat(Beat("node-1", "shop", "host", 1, ("send_receipt",), 1, "poll"))

asyncio.run(main())
"""


def test_workers_are_listed_drained_and_resumed(shell: Shell) -> None:
    shell.environment["MAINSPRING_URL"] = "sqlite:///shop.db"
    with shell.started("worker", "shop:app") as worker:
        line_with(worker, "ready")
        while not (seen := shell("workers", "list", "--json").json):
            pass
        (before,) = seen
        name = before["name"]
        drained = shell("workers", "drain", name, "--reason", "deploy", "--url", "sqlite:///shop.db")
        while shell("workers", "list", "--json").json[0]["state"] == "drain asked":
            pass
        audited, listed, as_json, shown, resumed, after = shell.several(
            ("audit", "--action", "drain", "--subject", name, "--by", "(cli)", "--json"),
            ("workers", "list"),
            ("workers", "list", "--json"),
            ("workers", "show", name),
            ("workers", "resume", name, "--json"),
            ("workers", "list", "--json"),
        )
        assert stop(worker).code == 0

    assert (before["state"], before["draining_at"], before["in_hand"]) == ("active", None, 0)
    assert (
        drained.out.splitlines()[0]
        == f"{name} is asked to drain: 0 deliveries in hand; it claims no more once it has read the request"
    )
    assert f"mainspring workers resume {name} --url sqlite:///shop.db" in drained.out
    header, line, note = listed.out.splitlines()
    assert header.split()[:3] == ["WORKER", "STATE", "APP"]
    assert line.split()[:2] == [name, "drained"]
    assert note.startswith(f"{name} is drained, asked ")
    assert note.endswith("(cli): deploy")
    assert as_json.json[0]["drained_by"].endswith("(cli)")
    assert as_json.json[0]["drain_reason"] == "deploy"
    first, why, last = shown.out.splitlines()
    assert (first, last) == (f"{name} is drained, 0 deliveries in hand", "Nothing in hand.")
    assert why.endswith("(cli): deploy")
    (line,) = audited.json
    assert (line["action"], line["subject"].endswith(name), line["detail"]) == ("drain", True, "deploy")
    assert resumed.json == {"worker": name, "draining": False}
    assert after.json[0]["draining_at"] is None


def test_what_a_worker_has_in_hand_is_shown(stocked: Shell) -> None:
    (stocked.directory / "hold.py").write_text(HOLD)
    stocked.python("hold.py")

    as_json, shown, drained, listed = stocked.several(
        ("workers", "show", "node-1", "--json"),
        ("workers", "show", "node-1"),
        ("workers", "drain", "node-1", "--json"),
        ("workers", "list"),
    )

    (hand,) = as_json.json["hands"]
    assert (hand["group"], hand["held_by"], hand["state"]) == ("send_receipt", "node-1", "running")
    said, header, line = shown.out.splitlines()
    assert said == "node-1 is active, 1 delivery in hand"
    assert header.split()[:4] == ["ID", "GROUP", "TOPIC", "ATTEMPT"]
    assert line.split()[:4] == [hand["message_id"], "send_receipt", "orders.placed", "1"]
    assert drained.json == {"worker": "node-1", "draining": True, "in_hand": 1}
    _, line, note = listed.out.splitlines()
    assert line.split()[:3] == ["node-1", "drain", "asked"]
    assert note.startswith("node-1 was asked to drain")
    assert note.endswith("has not confirmed it")


def test_nobody_at_work_teaches_how_to_start_one(stocked: Shell) -> None:
    listed, shown, drained = stocked.several(
        ("workers", "list"), ("workers", "show", "nobody"), ("workers", "drain", "nobody")
    )

    assert listed.out.startswith("No workers have reported. To start one: mainspring worker")
    assert shown.complaint == "there is no worker nobody: see `mainspring workers list`"
    assert drained.complaint == "there is no worker 'nobody'. There are: none"
