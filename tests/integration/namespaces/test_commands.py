"""The same for the command line: every command with ``--namespace`` keeps to its own."""

import asyncio
from collections.abc import Iterator

import pytest
from cyclopts import App

from mainspring.cli.commands import _commands, run
from tests.integration.namespaces.report import note
from tests.integration.namespaces.world import ALONE, DEAD, MINE, THEIRS, WAITING, Place, shown, stock

COMMANDS: dict[str, tuple[str, ...]] = {
    "migrate": (),
    "doctor": (),
    "health": (),
    "publish": ("orders.placed", "1", "--message-id", str(ALONE)),
    "dead list": (),
    "dead causes": (),
    "dead show": (str(DEAD),),
    "dead revive": ("--all", "--yes"),
    "dead discard": ("--all", "--yes"),
    "fanout list": (),
    "fanout show": ("etl", "payments"),
    "fanout edit": ("etl", "payments", "--shard", "a", "--every", "3h"),
    "fanout reset": ("etl", "payments", "--shard", "a"),
    "fanout seek": ("etl", "payments", "--to-start", "--yes"),
    "groups list": (),
    "groups pause": ("ship",),
    "groups resume": ("ship",),
    "groups release": ("ship",),
    "groups retire": ("ship", "--yes"),
    "inbox list": (),
    "inbox release": ("evt_2", "--source", "stripe", "--group", "shop"),
    "joins list": (),
    "joins show": (str(ALONE),),
    "joins cancel": (str(ALONE),),
    "leases list": (),
    "leases release": ("reports", "--yes"),
    "messages list": ("--state", "scheduled"),
    "messages search": ("1",),
    "messages show": (str(WAITING),),
    "messages chain": (str(WAITING),),
    "messages cancel": (str(WAITING),),
    "schedules list": (),
    "schedules show": ("weekly",),
    "schedules runs": ("weekly",),
    "schedules trigger": ("weekly",),
    "schedules backfill": ("weekly", "2030-01-01", "2030-01-09", "--yes"),
    "schedules pause": ("weekly",),
    "schedules resume": ("weekly",),
    "schedules alter": ("weekly", "--rhythm", "every 3d"),
    "schedules freeze": ("--everywhere",),
    "schedules thaw": ("--everywhere",),
    "schedules delete": ("weekly", "--yes"),
    "workers list": (),
    "workers show": ("node-1",),
    "workers drain": ("node-1",),
    "workers resume": ("node-1",),
    "audit": (),
    "prune": ("--done", "0s", "--failures", "0s", "--dead", "0s", "--parked", "0s", "--yes"),
}
REFUSED = {"joins show", "joins cancel"}
"""There is no such join here."""
OTHERS = {
    "asyncapi",
    "brokers check",
    "brokers declare",
    "brokers list",
    "cron",
    "dashboard",
    "declare",
    "demo",
    "fanout run",
    "fleet list",
    "fleet move",
    "fleet moves",
    "grants",
    "init",
    "sql",
    "top",
    "worker",
}
"""Connect to nothing, serve for as long as they run, or take the application, which has its namespace."""


def leaves(app: App, path: str = "") -> Iterator[str]:
    for name in app:
        if not name.startswith("-"):
            inner = [*leaves(app[name], f"{path}{name} ")]
            yield from inner or [f"{path}{name}"]


def test_every_command_has_its_place_in_the_walk() -> None:
    assert sorted(leaves(_commands())) == sorted({*COMMANDS, *OTHERS})


@pytest.mark.parametrize("place", ["sqlite", "postgresql"], indirect=True)
def test_no_command_reaches_into_another_namespace(
    place: Place, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    async def stocked() -> None:
        for namespace, mark in (("mine", MINE), ("theirs", THEIRS)):
            async with place.app(namespace, mark) as app:
                await stock(app, mark)

    async def look() -> tuple[object, object]:
        async with place.app("theirs", THEIRS) as app:
            return await shown(app), await place.tables("theirs")

    asyncio.run(stocked())
    before, leaks = asyncio.run(look()), []
    rows = before[1]
    for command, arguments in COMMANDS.items():
        where = ("--url", place.url, "--schema", place.schema, "--namespace", "mine")
        code = run([*command.split(), *arguments, *where])
        told = "".join(capsys.readouterr())
        assert code == 2 * (command in REFUSED) or (command, code) == ("health", 1), f"{command}: {told}"
        leaks += [f"{command} tells of the other namespace: {told}"] * (THEIRS in told)
        now = asyncio.run(place.tables("theirs"))
        leaks += [f"{command} changed the other namespace"] * (now != rows)
        rows = now
    assert asyncio.run(look()) == before
    note(request.node, place.engine, len(COMMANDS), len(leaks))
    assert leaks == []
