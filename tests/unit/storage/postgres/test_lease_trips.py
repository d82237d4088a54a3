"""What leases cost, counted without a database: one statement each, and no transaction of our own."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mainspring.model.lease import Granted, Hold, Renewal, Renewed
from mainspring.storage.operation import HandSet, Nowhere
from mainspring.storage.postgres.coordination import PostgresLeases
from mainspring.storage.postgres.dialect import Names, Opening
from mainspring.storage.script import Row, Script, Statement, run

LEASES = PostgresLeases(Names("mainspring"), Nowhere(), HandSet())
NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
TTL = timedelta(seconds=30)


class Recorder:
    """A connection that writes down what it is asked, and always answers the same."""

    def __init__(self, answer: Sequence[Row]) -> None:
        self.statements: list[Statement] = []
        self._answer = answer

    def execute(self, statement: Statement) -> Sequence[Row]:
        self.statements.append(statement)
        return self._answer


@pytest.mark.parametrize(
    ("script", "rows", "answer"),
    [
        (LEASES.acquire.script("reports", "one", TTL), [(7, NOON, NOON + TTL)], Granted(7, NOON, NOON + TTL)),
        (LEASES.acquire.script("reports", "one", TTL), [], None),
        (LEASES.release.script("reports", 7, "one"), [(7,)], True),
        (LEASES.confirm.script("reports", 7, "one"), [], False),
        (LEASES.find.script("reports"), [], None),
        (LEASES.browse.script(None, 50), [], []),
        (LEASES.revoke.script("reports", "ann", "stuck"), [(1,)], True),
    ],
)
def test_every_operation_is_one_statement_by_itself(script: Script[Any], rows: Sequence[Row], answer: object) -> None:
    recorder = Recorder(rows)

    answered = run(recorder, script)

    assert answered == answer
    assert [isinstance(each, Opening) for each in recorder.statements] == [False]


def test_a_thousand_holds_are_renewed_in_one_trip() -> None:
    renewals = [Renewal(Hold(f"lease {number}", number, "one"), TTL) for number in range(1000)]
    recorder = Recorder([("lease 3", 3, "one", "lost"), ("lease 4", 4, "one", "busy")])

    answered = run(recorder, LEASES.renew.script(renewals))

    lost, busy = Hold("lease 3", 3, "one"), Hold("lease 4", 4, "one")
    assert answered == Renewed(lost=frozenset({lost}), busy=frozenset({busy}))
    (statement,) = recorder.statements
    assert statement.args[0] == sorted(renewal.hold.name for renewal in renewals), "locked in one order by everybody"
