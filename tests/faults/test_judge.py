"""The checkers themselves: each violation, written by hand, is found."""

from pathlib import Path
from uuid import UUID, uuid4

import pytest

from tests.faults.judge import judge, reclaim_times, stale_verdicts
from tests.faults.ledger import Effects, Execution, Ledger, executions, read_ledger
from tests.faults.tables import Buried, KeptRun


class _Kept:
    """Tables that hold what a test says."""

    def __init__(self, runs: list[KeptRun], stored: list[UUID], buried: list[Buried] | None = None) -> None:
        self._runs, self._stored, self._buried = runs, stored, buried or []

    def runs(self) -> list[KeptRun]:
        return self._runs

    def messages(self) -> list[UUID]:
        return self._stored

    def buried(self) -> list[Buried]:
        return self._buried

    def live(self) -> int:
        return 0

    def held(self) -> int:
        return 0

    def accused(self) -> set[UUID]:
        return set()

    def roster(self) -> set[int]:
        return set()


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "ledger")


def _run(id: UUID, epoch: int = 1, pid: int = 1, began: float = 0.0, outcome: str | None = "ok") -> Execution:
    return Execution(id, 0, epoch, epoch, pid, began, began + 1 if outcome else None, outcome)


def _done(id: UUID, epoch: int = 1) -> KeptRun:
    return KeptRun(id, epoch, "done", None, f"{epoch}:1")


def test_a_message_handled_once_is_flawless(ledger: Ledger) -> None:
    id = uuid4()
    ledger.note("invoked", [id])
    ledger.note("ok", [id])

    found = judge(ledger, [_run(id)], _Kept([_done(id)], [id]), bound=0)

    assert found.flawless
    assert (found.messages, found.executed, found.duplicates) == (1, 1, 0)


def test_an_acknowledged_message_without_a_finished_execution_is_lost(ledger: Ledger) -> None:
    id = uuid4()
    ledger.note("ok", [id])

    found = judge(ledger, [_run(id, outcome=None)], _Kept([_done(id)], [id]), bound=0)

    assert found.lost == {id}
    assert not found.flawless


def test_a_message_with_two_ends_or_none_is_a_violation(ledger: Ledger) -> None:
    twice, never = uuid4(), uuid4()
    ledger.note("ok", [twice, never])

    found = judge(ledger, [_run(twice), _run(never)], _Kept([_done(twice), _done(twice)], [twice, never]), bound=0)

    assert found.unended == {twice, never}


def test_a_publish_of_unknown_outcome_may_happen_once_but_not_twice(ledger: Ledger) -> None:
    never, once, twice = uuid4(), uuid4(), uuid4()
    ledger.note("unknown", [never, once, twice])

    found = judge(ledger, [_run(once)], _Kept([_done(once)], [once, twice, twice]), bound=0)

    assert found.doubled == {twice}
    assert found.unknown == 3


def test_duplicates_beyond_the_bound_are_a_violation(ledger: Ledger) -> None:
    id = uuid4()
    ledger.note("ok", [id])
    executed = [_run(id, outcome=None), _run(id, epoch=2)]

    within = judge(ledger, executed, _Kept([_done(id, 2)], [id]), bound=1)
    beyond = judge(ledger, executed, _Kept([_done(id, 2)], [id]), bound=0)

    assert within.flawless
    assert not beyond.flawless


def test_a_verdict_of_an_earlier_epoch_is_stale_once_a_later_one_has_begun() -> None:
    id = uuid4()

    assert stale_verdicts([_run(id), _run(id, epoch=2)], [_done(id, 1)])
    assert not stale_verdicts([_run(id), _run(id, epoch=2)], [_done(id, 2)])


def test_one_claim_executed_by_two_processes_is_a_violation(ledger: Ledger) -> None:
    id = uuid4()
    ledger.note("ok", [id])

    found = judge(ledger, [_run(id, pid=1), _run(id, pid=2)], _Kept([_done(id)], [id]), bound=9)

    assert found.shared == {(id, 1)}
    assert not found.flawless


def test_an_orphan_is_timed_from_the_death_of_its_holder() -> None:
    id = uuid4()

    assert reclaim_times([_run(id, pid=7, outcome=None), _run(id, epoch=2, pid=8, began=12.5)], {7: 10.0}) == [2.5]


def test_what_processes_wrote_down_is_read_back(tmp_path: Path, ledger: Ledger) -> None:
    done, cut = uuid4(), uuid4()
    effects = Effects(tmp_path / "effects")
    effects.begin(done, 1, 1, 1)
    effects.begin(cut, 2, 3, 2)
    effects.end(done, 1, "ok")
    ledger.note("invoked", [done, cut])
    ledger.note("ok", [done])

    first, second = executions(tmp_path / "effects")

    assert (first.id, first.outcome, second.id, second.epoch, second.attempt) == (done, "ok", cut, 3, 2)
    assert second.ended is None
    assert read_ledger(tmp_path / "ledger") == {done: "ok", cut: "invoked"}
