"""How many statements leases take on SQLite, and that whoever is refused writes nothing."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from mainspring.model.lease import Hold, Renewal
from mainspring.storage.operation import Nowhere
from mainspring.storage.script import Row, Script, Statement, run
from mainspring.storage.sqlite.coordination import SqliteLeases
from mainspring.storage.sqlite.dialect import Dialect

TTL = timedelta(seconds=30)
HOST = 1_900_000_000_000_000
SQL = Dialect("mainspring", host=lambda: HOST)
LEASES = SqliteLeases(SQL, Nowhere())
NAMES = (
    *("lease_held", "lease_confirm", "lease_count", "lease_take", "lease_renew", "lease_release", "lease_browse"),
    *("clock_read", "clock_mark", "audit_note"),
)


class Recorder:
    """A connection that writes down what it is asked, and answers by the name of the statement."""

    def __init__(self, **answers: Sequence[Row]) -> None:
        self.asked: list[str] = []
        self._answers = {"clock_read": [(HOST,)], "lease_count": [(8,)], **answers}

    def execute(self, statement: Statement) -> Sequence[Row]:
        name = next(each for each in NAMES if SQL(each).sql == statement.sql)
        self.asked.append(name)
        return self._answers.get(name, [])


def bill(script: Script[Any], **answers: Sequence[Row]) -> list[str]:
    recorder = Recorder(**answers)
    run(recorder, script)
    return recorder.asked


def test_whoever_is_refused_has_only_read() -> None:
    asked = bill(LEASES.acquire.script("reports", "two", TTL), lease_held=[(7, "one", HOST)])

    assert asked == ["clock_read", "lease_held"]


def test_acquiring_counts_the_epoch_and_takes_the_row() -> None:
    asked = bill(LEASES.acquire.script("reports", "one", TTL))

    assert asked == ["clock_read", "lease_held", "clock_mark", "lease_count", "lease_take"]


def test_acquiring_again_counts_no_epoch() -> None:
    asked = bill(LEASES.acquire.script("reports", "one", TTL), lease_held=[(7, "one", HOST)])

    assert asked == ["clock_read", "lease_held", "clock_mark", "lease_take"]


def test_renewing_is_a_statement_per_hold_in_one_transaction() -> None:
    renewals = [Renewal(Hold("a", 1, "one"), TTL), Renewal(Hold("b", 2, "one"), TTL)]

    assert bill(LEASES.renew.script(renewals)) == ["clock_mark", "clock_read", "lease_renew", "lease_renew"]


def test_confirming_takes_the_write_lock_first() -> None:
    # A read before it could not be raised to a write when somebody else has written since.
    assert bill(LEASES.confirm.script("reports", 7, "one")) == ["clock_mark", "clock_read", "lease_confirm"]


def test_releasing_is_one_statement_and_revoking_writes_it_down() -> None:
    held = [(7, "one", HOST)]

    assert bill(LEASES.release.script("reports", 7, "one")) == ["clock_mark", "clock_read", "lease_release"]
    assert bill(LEASES.revoke.script("reports", "ann", ""), lease_held=held) == [
        *("clock_mark", "clock_read", "lease_held", "lease_release", "audit_note"),
    ]
