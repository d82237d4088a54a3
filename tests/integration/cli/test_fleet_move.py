"""`fleet move`: a database of a fleet in another place, step by step."""

import pytest

from tests.integration.cli.shell import Shell

TENANTS = """
from mainspring import Fleet, Mainspring

app = Mainspring("fleet://", name="shop")


@app.consumer("orders.placed")
async def receipts(order: int) -> None: ...


def on_move(source: Mainspring, target: Mainspring) -> None:
    if broken:
        raise SystemExit(3)


import os
broken = "BROKEN" in os.environ
names = ("home", "acme", "eu-2")
fleet = Fleet(app, {name: f"sqlite:///{name}.db" for name in names}, home="home", on_move=on_move)
"""
PUBLISH = """
import asyncio
from tenants import fleet

async def main():
    await fleet.migrate()
    async with fleet:
        for number in range(3):
            await fleet.publish("orders.placed", number, database="acme")

asyncio.run(main())
"""


@pytest.fixture
def tenants(shell: Shell) -> Shell:
    """A fleet with three messages in one of its databases."""
    (shell.directory / "tenants.py").write_text(TENANTS)
    shell.environment["MAINSPRING_APP"] = "tenants:fleet"
    (shell.directory / "fill.py").write_text(PUBLISH)
    shell.python("fill.py")
    return shell


def test_a_database_moves_and_each_step_is_told(tenants: Shell) -> None:
    none = tenants("fleet", "moves")
    moved = tenants("fleet", "move", "acme", "--to", "eu-2", "--drain", "0s")
    (listed,) = tenants("fleet", "moves", "--json").json

    assert none.out == "No database of the fleet has moved.\n"
    assert moved.code == 0, moved.err
    lines = moved.out.splitlines()
    assert [line for line in lines if ": step " in line] == [
        f"acme: step {each}" for each in ("pause", "copy", "verify", "reroute", "resume", "finished")
    ]
    assert "acme: 3 rows of parked are copied" in lines
    assert lines[-1].startswith("acme is served in eu-2, with ")
    assert "3 message, 3 parked" in lines[-1]
    assert (listed["name"], listed["target"], listed["step"]) == ("acme", "eu-2", "finished")
    assert listed["counts"]["message"] == 3


def test_a_move_that_was_stopped_is_undone_or_goes_on(tenants: Shell) -> None:
    tenants.environment["BROKEN"] = "1"
    stopped = tenants("fleet", "move", "acme", "--to", "eu-2", "--drain", "0s")
    del tenants.environment["BROKEN"]
    (halfway,) = tenants("fleet", "moves", "--json").json
    undone = tenants("fleet", "move", "acme", "--undo")
    again = tenants("fleet", "move", "acme", "--to", "eu-2", "--drain", "0s", "--json")

    assert stopped.code != 0
    assert halfway["step"] == "copy"
    assert undone.out.splitlines()[-1] == "acme is served where it was, and eu-2 is empty."
    assert again.json["step"] == "finished"


def test_what_is_no_move_says_what_to_type(tenants: Shell) -> None:
    neither, both, unknown, undo, app = tenants.several(
        ("fleet", "move", "acme"),
        ("fleet", "move", "acme", "--to", "eu-2", "--undo"),
        ("fleet", "move", "acm", "--to", "eu-2"),
        ("fleet", "move", "acme", "--undo"),
        ("fleet", "move", "acme", "--to", "eu-2", "--app", "tenants:app"),
    )

    assert neither.complaint == "write `fleet move acme --to NAME`, or `fleet move acme --undo`"
    assert both.complaint == neither.complaint
    assert "'acm' is no database of the fleet. Did you mean 'acme'?" in unknown.complaint
    assert undo.complaint == "no move of 'acme' is under way: see fleet.moves()"
    assert app.complaint.startswith("tenants:app is ")
