"""Every room of a dialect keeps its contract, and both dialects run an operation on the same lane."""

import inspect

import pytest

from mainspring.storage import contract
from mainspring.storage.operation import Definition, HandSet, Lane, Nowhere
from mainspring.storage.postgres import PostgresOperationSet
from mainspring.storage.postgres.dialect import Names
from mainspring.storage.sqlite import SqliteOperationSet
from mainspring.storage.sqlite.dialect import Dialect

ROOMS = ["Controls", "Fanouts", "Inbox", "Leases", "Ledger", "Mailbox", "Measures", "Timetable", "Upkeep"]
POSTGRES = PostgresOperationSet(Names("mainspring"), Nowhere(), HandSet())
SQLITE = SqliteOperationSet(Dialect("mainspring"), Nowhere())


def lanes(room: object) -> dict[str, Lane]:
    members = inspect.getmembers_static(type(room))
    return {name: each._lane for name, each in members if isinstance(each, Definition)}


@pytest.mark.parametrize("room", ROOMS)
def test_each_dialect_defines_what_the_contract_promises_on_the_same_lanes(room: str) -> None:
    promised = {
        name: inspect.signature(each)
        for name, each in vars(getattr(contract, room)).items()
        if inspect.iscoroutinefunction(each)
    }

    postgres, sqlite = (getattr(operations, room.lower()) for operations in (POSTGRES, SQLITE))

    assert lanes(postgres) == lanes(sqlite)
    assert promised.keys() <= lanes(postgres).keys()
    for name, signature in promised.items():
        wanted = {each.name: each.default for each in list(signature.parameters.values())[1:]}
        for dialect in (postgres, sqlite):
            given = inspect.signature(getattr(dialect, name).script).parameters.values()
            assert wanted.items() <= {each.name: each.default for each in given}.items(), name


def test_claiming_and_settling_have_lanes_of_their_own() -> None:
    reserved = {name: lane for name, lane in lanes(POSTGRES.mailbox).items() if lane not in ("read", "write")}

    assert reserved == {
        "claim": "claim",
        "take": "claim",
        "reap": "claim",
        "upcoming": "claim",
        "claim_limited": "limited",
        "reap_limited": "limited",
        "extend": "settle",
        "settle": "settle",
        "settle_all": "settle",
    }


def test_what_only_reads_never_waits_for_a_writer() -> None:
    assert set(lanes(POSTGRES.measures).values()) == {"read"}
    assert {name for name, lane in lanes(SQLITE.ledger).items() if lane != "read"} == {"earlier"}
    assert "read" not in lanes(SQLITE.mailbox).values()
