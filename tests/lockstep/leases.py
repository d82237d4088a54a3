"""Histories of leases: acquired, sent again, renewed, released, revoked, run out, pruned, and held by others."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from mainspring.model.lease import Hold, LeaseView, Renewal
from mainspring.model.retention import Retention
from mainspring.storage.contract import Storage
from tests.lockstep import alike, drawing
from tests.lockstep.twins import Twins

names = st.sampled_from(["reports", "it's 夜", "é"])
holders = st.sampled_from(["one", "two", "three"])
ttls = st.sampled_from([drawing.SECOND, drawing.MINUTE, drawing.HOUR])
passing = st.sampled_from([drawing.TICK, drawing.SECOND, drawing.SECOND, drawing.MINUTE, drawing.HOUR, drawing.DAY])
kept = st.sampled_from([timedelta(), drawing.MINUTE, drawing.DAY, None])
ages = st.integers(0, 9)
"""Counted from the newest: most of them are still good."""


class Leased(Twins):
    """All that is done to leases. Epochs differ, since a sequence goes on; they must grow together."""

    @initialize(name=names, holder=holders, ttl=ttls)
    def begin(self, name: str, holder: str, ttl: timedelta) -> None:
        self.holds: list[tuple[Hold, Hold]] = []
        self.acquire(name, holder, ttl)

    @rule(by=passing)
    def time_passes(self, by: timedelta) -> None:
        self.turn(self.now + by)

    @rule(name=names, holder=holders, ttl=ttls)
    def acquire(self, name: str, holder: str, ttl: timedelta) -> None:
        sqlite, postgres = self.both(lambda storage: storage.leases.acquire(name, holder, ttl))
        assert (postgres and postgres[1:]) == (sqlite and sqlite[1:])
        if sqlite is None or postgres is None:
            return
        pair = Hold(name, sqlite.epoch, holder), Hold(name, postgres.epoch, holder)
        if pair not in self.holds:
            for before in self.holds:
                assert all(new.epoch > old.epoch for new, old in zip(pair, before, strict=True)), "the fence goes back"
            self.holds.append(pair)

    @precondition(lambda self: self.holds)
    @rule(chosen=st.sets(ages, min_size=1, max_size=4), ttl=ttls)
    def renew(self, chosen: set[int], ttl: timedelta) -> None:
        pairs = {self._aged(age) for age in chosen}
        sqlite, postgres = (
            self.runner.run(storage.leases.renew([Renewal(pair[side], ttl) for pair in pairs]))
            for side, storage in enumerate((self.sqlite, self.postgres))
        )
        assert {self._ours(each) for each in postgres.lost} == sqlite.lost
        assert postgres.busy == sqlite.busy == frozenset()

    @precondition(lambda self: self.holds)
    @rule(age=ages)
    def confirm_and_release(self, age: int) -> None:
        pair = self._aged(age)
        held, held_there = self._each(pair, lambda storage, hold: storage.leases.confirm(*hold))
        gone, gone_there = self._each(pair, lambda storage, hold: storage.leases.release(*hold))
        assert held_there == held == gone == gone_there

    @precondition(lambda self: self.holds)
    @rule(age=ages)
    def confirm(self, age: int) -> None:
        held, held_there = self._each(self._aged(age), lambda storage, hold: storage.leases.confirm(*hold))
        assert held_there == held

    @rule(name=names, reason=st.sampled_from(["", "stuck"]))
    def revoke(self, name: str, reason: str) -> None:
        self.alike(lambda storage: storage.leases.revoke(name, "ann", reason))

    @rule(leases=kept, limit=drawing.limits)
    def prune(self, leases: timedelta | None, limit: int) -> None:
        retention = Retention(leases=leases, audit=None)
        self.alike(lambda storage: storage.upkeep.prune(retention, limit))

    @invariant()
    def everything_to_be_seen_agrees(self) -> None:
        self.alike(_everything)

    def _aged(self, age: int) -> tuple[Hold, Hold]:
        return self.holds[-1 - age % len(self.holds)]

    def _ours(self, postgres: Hold) -> Hold:
        return next(sqlite for sqlite, theirs in self.holds if theirs == postgres)

    def _each(self, pair: tuple[Hold, Hold], act: Any) -> tuple[bool, bool]:
        sqlite, postgres = (
            self.runner.run(act(storage, pair[side])) for side, storage in enumerate((self.sqlite, self.postgres))
        )
        return sqlite, postgres


async def _everything(storage: Storage) -> dict[str, Any]:
    views = await storage.leases.browse(None, 1000)
    order = sorted(view.epoch for view in views)
    found = [await storage.leases.find(view.name) for view in views]
    return {
        "leases": [_plain(view) for view in views],
        "found": [view and _plain(view) for view in found],
        "order": [order.index(view.epoch) for view in views],
        "audit": alike.audit(await storage.ledger.audit(None, 1000)),
    }


def _plain(view: LeaseView) -> LeaseView:
    return replace(view, epoch=0)
