"""`leases`: list leases, and release one for its holder."""

from datetime import UTC, datetime

import pytest

from mainspring import Mainspring
from tests.integration.cli.shell import Shell


@pytest.fixture
def held(shell: Shell) -> Shell:
    """One lease that is held for long, and one that was given back."""
    app = Mainspring(f"sqlite:///{shell.directory}/shop.db", name="gone")
    app.sync.leases.acquire("billing", "1d")
    back = app.sync.leases.acquire("reports")
    assert back is not None
    back.release()
    # As a process that is killed leaves it: closing in good order would give it back.
    keeper = app.sync.leases._target._operations.keeping._here
    assert keeper is not None
    keeper._held.clear()
    app.sync.close()
    return Shell(shell.directory, "sqlite:///shop.db")


def test_leases_are_listed(held: Shell) -> None:
    billing, reports = held("leases", "list", "--json").json

    assert (billing["name"], billing["state"], billing["epoch"]) == ("billing", "held", 1)
    assert billing["holder"]
    assert datetime.fromisoformat(billing["expires_at"]) > datetime.now(UTC)
    assert (reports["name"], reports["state"], reports["holder"]) == ("reports", "free", None)


def test_leases_are_listed_for_people_page_by_page(held: Shell) -> None:
    header, row, more = held("leases", "list", "--limit", 1).out.splitlines()
    second, wrong = held.several(
        ("leases", "list", "--limit", 1, *more.split()[-2:]),
        ("leases", "list", "--cursor", "billing"),
    )

    assert header.split() == ["LEASE", "STATE", "HOLDER", "EPOCH", "ACQUIRED", "RENEWED", "EXPIRES"]
    assert row.split()[:2] == ["billing", "held"]
    assert more.startswith("There is more: add --cursor ")
    (_, line) = second.out.splitlines()
    assert line.split()[:2] == ["reports", "free"]
    assert wrong.code != 0
    assert "cursor='billing' is not a cursor of app.leases.list()" in wrong.err


def test_no_leases_are_no_error(shell: Shell) -> None:
    assert shell("leases", "list", "--app", "shop:app").out == "No leases held now or recently.\n"


def test_a_lease_is_released_with_a_reason_when_somebody_says_so(held: Shell) -> None:
    asked = held("leases", "release", "billing")
    released, again = held.several(
        ("leases", "release", "billing", "--reason", "it hangs", "--yes"),
        ("leases", "release", "billing", "--json"),
    )

    assert "It would ask: Release billing, held by " in asked.complaint
    assert released.out.startswith("billing is released; ")
    assert again.json == {"lease": "billing", "released": False, "holder": None}
    assert held("leases", "list", "--json").json[0]["state"] == "free"


def test_a_lease_that_nobody_holds_is_left_alone(held: Shell) -> None:
    ended = held("leases", "release", "reports")

    assert ended.out == "reports is not held; nothing changed\n"


def test_a_lease_is_released_only_when_said_so(held: Shell) -> None:
    ended = held.on_terminal("leases", "release", "billing", typed="\n")

    assert (ended.code, "Nothing released." in ended.out) == (1, True)


def test_the_nearest_name_is_suggested(held: Shell) -> None:
    complaint = held("leases", "release", "biling").complaint

    assert complaint == (
        "no lease 'biling' is held or was recently. Did you mean 'billing'? See `mainspring leases list`"
    )


def test_the_lease_of_the_metrics_is_marked_as_internal(held: Shell) -> None:
    app = Mainspring(f"sqlite:///{held.directory}/shop.db")
    app.sync.metrics()
    listed = held("leases", "list").out.splitlines()
    app.sync.close()

    assert [each.split("  ")[0] for each in listed[1:]] == [
        "billing",
        "mainspring.gauges (internal, of /metrics)",
        "reports",
    ]
