"""`mainspring worker` over a fleet: which databases it serves, and what it says of them."""

import json
import re
import shutil
from pathlib import Path

import httpx2
import pytest

from tests.integration.cli.conftest import HERE
from tests.integration.cli.shell import Shell, line_with, stop
from tests.services.postgres import new_database

APP = ("--app", "stores:fleet")
FOUND = ("--app", "stores:found")


@pytest.fixture
def stores(shell: Shell) -> Shell:
    """Commands beside the fleets of stores.py, whose files are not there yet."""
    shutil.copy(HERE / "stores.py", shell.directory / "stores.py")
    return shell


def test_a_worker_serves_every_database_and_says_how_many(stores: Shell) -> None:
    with stores.started("worker", "stores:fleet") as worker:
        ready = [line_with(worker, "ready"), line_with(worker, "databases"), line_with(worker, "groups")]
        stores("publish", "orders.placed", '{"store": "bolt", "id": 7}', *APP)
        line_with(worker, "receipt 7")
        ended = stop(worker)

    assert ready[0].startswith("mainspring worker ready: stores:fleet, 3 databases, ")
    assert ready[1].split() == ["databases", "acme,", "bolt,", "cask"]
    assert "receipt (orders.placed)" in ready[2]
    assert ended.code == 0
    assert "mainspring worker stopped: stores:fleet" in ended.out


def test_a_worker_serves_the_databases_that_patterns_and_names_choose(stores: Shell) -> None:
    stores("declare", "stores:fleet")
    chosen = ("--database", "b*", "--database", "cask", "--database", "eu-*")
    with stores.started("worker", "stores:fleet", *chosen, "--most-open", "1", "-g", "receipt") as worker:
        ready, databases = line_with(worker, "ready"), line_with(worker, "databases")
        skipped = line_with(worker, "skipped")
        for store in ("acme", "bolt", "cask"):
            stores("publish", "orders.placed", f'{{"store": "{store}", "id": "of {store}"}}', *APP)
        done = {line_with(worker, "receipt of").split()[2] for _ in range(2)}
        ended = stop(worker)

    assert "stores:fleet, 2 of 3 databases, " in ready
    assert databases.split()[1:] == ["bolt,", "cask"]
    assert "group report: not named by --group" in skipped
    assert (done, ended.code) == ({"bolt", "cask"}, 0)
    assert [each["state"] for each in stores("messages", "list", *APP, "--json").json["acme"]] == ["ready"]


def test_every_process_of_several_serves_the_chosen_databases(stores: Shell) -> None:
    options = ("--database", "b*", "--most-open", "3", "--processes", "2")
    with stores.started("worker", "stores:fleet", *options, anew=True) as worker:
        ready = [line_with(worker, "ready") for _ in range(2)]
        ended = stop(worker)

    assert all("stores:fleet, 1 of 3 databases" in each for each in ready)
    assert ended.code == 0


def test_processes_share_the_databases(stores: Shell) -> None:
    stores("declare", "stores:found")
    options = ("--share", "--order", "drain-first", "--processes", "2")
    with stores.started("worker", "stores:found", *options, anew=True) as worker:
        for _ in range(2):
            line_with(worker, "ready")
        for store in ("acme", "bolt", "cask"):
            stores(
                "publish", "orders.placed", f'{{"store": "{store}", "id": "of {store}"}}', "--database", store, *FOUND
            )
        done = {line_with(worker, "receipt of").split()[2] for _ in range(3)}
        shares = stores("leases", "list", "--database", "acme", *FOUND, "--json").json
        ended = stop(worker)

    assert done == {"acme", "bolt", "cask"}
    assert [each["name"].rpartition(":")[2] for each in shares] == ["1", "2"]
    assert ended.code == 0


def test_a_worker_whose_databases_are_not_known_yet_waits_for_them(stores: Shell) -> None:
    with stores.started("worker", "stores:lost", "--database", "acme") as worker:
        ready = line_with(worker, "ready")
        ended = stop(worker)

    assert "stores:lost, 0 of 0 databases" in ready
    assert "failed to ask for the databases of the fleet" in ended.err
    assert ended.code == 0


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["stores:fleet", "--database", "bolb"], "--database 'bolb' is no database of the fleet. Did you mean 'bolt'?"),
        (["stores:fleet", "--most-open", "0"], "most_open=0 must be a whole number from 1 to 10,000"),
        (["stores:alone", "--most-open", "3"], "--most-open is for the worker of a fleet, and stores:alone is an app"),
        (["stores:fleet", "--share"], "fleet.worker() with share=True needs a database that keeps what concerns all"),
        (["stores:homeless", "--share"], "'acne' is no database of the fleet. Did you mean 'acme'?"),
        (["stores:alone", "--share"], "--share is for the worker of a fleet, and stores:alone is an app"),
        (["stores:alone", "--database", "acme"], "stores:alone is no fleet. Write stores:fleet or"),
        (["stores:app"], "stores:app leads a fleet and has no database of its own. Write stores:fleet or"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_mistake_is_reported_with_what_to_type(stores: Shell, options: list[str], complaint: str) -> None:
    assert complaint in stores("worker", *options).complaint


def test_a_fleet_on_postgresql_is_migrated_worked_and_looked_at(
    stores: Shell, postgres_url: str, tmp_path: Path
) -> None:
    names = ("acme", "bolt")
    with (
        new_database(postgres_url, f"cli_{tmp_path.name[-9:]}_acme".lower().replace("-", "_")) as acme,
        new_database(postgres_url, f"cli_{tmp_path.name[-9:]}_bolt".lower().replace("-", "_")) as bolt,
    ):
        stores.environment |= {"STORES": json.dumps({"acme": acme, "bolt": bolt}), "MAINSPRING_APP": "stores:found"}
        before, one, health = stores.several(("dead", "list"), ("migrate", "--database", "acme"), ("health", "--json"))
        with stores.started("worker", "--dev") as worker:
            line_with(worker, "2 databases")
            for name in names:
                stores("publish", "orders.placed", '{"jam": 1}', "--database", name)
            while any(len(each) < 1 for each in stores("dead", "list", "--json").json.values()):
                pass
            assert stop(worker).code == 0
        revived, listed = stores.several(("dead", "revive", "--all", "--yes", "--json"), ("fleet", "list", "--json"))

    assert before.code == 1
    assert [each.split(": ")[:2] for each in before.err.splitlines()[:2]] == [["error", "acme"], ["error", "bolt"]]
    assert "`mainspring migrate --database acme`" in before.err
    assert one.out.startswith("applied 0001_")
    assert {name: each["status"] for name, each in health.json["databases"].items()} == {
        "acme": "healthy",
        "bolt": "unhealthy",
    }
    assert "mainspring migrate --database bolt" in health.out
    assert revived.json == {name: {"revived": 1} for name in names}
    assert [each["ready"] for each in listed.json] == [1, 1]


def test_the_probes_of_a_worker_are_those_of_the_fleet(stores: Shell) -> None:
    stores("migrate", "stores:fleet")
    with stores.started("worker", "stores:fleet", "--probe", "127.0.0.1:0") as worker:
        line_with(worker, "worker ready")
        with httpx2.Client(base_url=_address(line_with(worker, "probes"))) as client:
            ready = client.get("/health/ready")
            numbers = client.get("/metrics").text
        assert stop(worker).code == 0

    assert (ready.status_code, ready.json()["status"]) == (200, "healthy")
    assert {each["name"] for each in ready.json()["checks"]} == {"discovery", "databases"}
    assert 'mainspring_fleet_databases{database="",state="known"} 3.0' in numbers


def test_the_dashboard_shows_all_databases_of_a_fleet_or_one(stores: Shell) -> None:
    stores("migrate", "stores:found")
    with stores.started("dashboard", "stores:found", "--port", "0") as dashboard:
        base, _, token = line_with(dashboard, "as operator").partition("/login#token=")
        with httpx2.Client(base_url=_address(base), headers={"Authorization": f"Bearer {token.strip()}"}) as client:
            rows = client.get("/api/databases").json()["rows"]
            one = client.get("/db/bolt/api/overview")
        assert stop(dashboard).code == 0
    with stores.started("dashboard", "stores:found", "--database", "bolt", "--port", "0") as dashboard:
        base, _, token = line_with(dashboard, "as operator").partition("/login#token=")
        with httpx2.Client(base_url=_address(base), headers={"Authorization": f"Bearer {token.strip()}"}) as client:
            alone = client.get("/api/overview")
        assert stop(dashboard).code == 0
    refused = stores("dashboard", "stores:found", "--database", "b*", "--port", "0")

    assert [row["name"] for row in rows] == ["acme", "bolt", "cask"]
    assert (one.status_code, alone.status_code) == (200, 200)
    assert "the dashboard shows all databases of a fleet, or one" in refused.complaint


def _address(line: str) -> str:
    found = re.search(r"http://[^/\s]+", line)
    assert found is not None, line
    return found[0]
