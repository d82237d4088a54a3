"""Histories of fan-outs: planned under a lease and without, done, dead, cancelled, edited, advanced and pruned."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from mainspring.model.fanout import (
    EVERYTHING,
    Batch,
    Candidate,
    CursorKey,
    FanoutPolicy,
    Planning,
    identity,
    slice_id,
)
from mainspring.model.lease import Hold
from mainspring.model.message import ALL_LEVELS, ClaimRequest, Draft
from mainspring.model.retention import Retention
from mainspring.model.schedule import Note
from mainspring.model.views import Declaration
from mainspring.storage.contract import Storage
from tests.lockstep import alike, drawing
from tests.lockstep.twins import START, Twins

LEASE = "fanout:etl"
shards = st.sampled_from(["a", "b", "it's 夜|é"])
works = st.sampled_from(["payments", "refunds"])
named = st.lists(st.tuples(works, shards), min_size=1, max_size=5, unique=True)
windows = st.integers(-2, 2).map(lambda hours: hours * drawing.HOUR)
passing = st.sampled_from([drawing.TICK, drawing.MINUTE, drawing.HOUR, drawing.DAY, 20 * drawing.DAY])
lengths = st.sampled_from([None, timedelta(), drawing.HOUR, 30 * drawing.DAY])
policies = st.builds(FanoutPolicy, st.sampled_from([None, True, False]), lengths, lengths)
subjects = st.one_of(shards, st.just(EVERYTHING))


class Fanned(Twins):
    """All that is done to cursors and policies."""

    @initialize(subscribed=st.booleans())
    def begin(self, subscribed: bool) -> None:
        self.holds: list[tuple[Hold, Hold]] = []
        if subscribed:
            self.alike(lambda storage: storage.upkeep.declare([Declaration("load", "etl", ("slices",), "etl:load")]))
        self.acquire()

    @rule(by=passing)
    def time_passes(self, by: timedelta) -> None:
        self.turn(self.now + by)

    @rule()
    def acquire(self) -> None:
        holder = str(self.now)
        sqlite, postgres = self.both(lambda storage: storage.leases.acquire(LEASE, holder, drawing.HOUR))
        assert (postgres is None) == (sqlite is None)
        if sqlite is not None and postgres is not None:
            self.holds.append((Hold(LEASE, sqlite.epoch, holder), Hold(LEASE, postgres.epoch, holder)))

    @rule(named=named, offset=windows, age=st.sampled_from([0, 0, 0, 1]), takes=st.sampled_from([1, 2, 9]))
    def plan(self, named: list[tuple[str, str]], offset: timedelta, age: int, takes: int) -> None:
        window = self.now.replace(minute=0, second=0, microsecond=0) + offset
        hold = self.holds[-1 - age % len(self.holds)]
        seen: list[list[Candidate]] = []

        def choose(candidates: Sequence[Candidate]) -> list[Planning]:
            ordered = sorted(candidates, key=lambda each: (each.work, each.shard))
            seen.append(ordered)
            return [_planned(each, window) for each in ordered if not each.unfinished][:takes]

        sqlite, postgres = (
            self.runner.run(storage.fanouts.plan(Batch("etl", window, named, hold[side]), choose))
            for side, storage in enumerate((self.sqlite, self.postgres))
        )
        assert postgres == sqlite
        assert seen[1:] == seen[:1]

    @rule(work=works, shard=shards, offset=windows)
    def advance(self, work: str, shard: str, offset: timedelta) -> None:
        self.alike(lambda storage: storage.fanouts.advance(CursorKey("etl", work, shard), self.now + offset))

    @rule(settlings=st.lists(drawing.settlings, min_size=3, max_size=3))
    def work(self, settlings: list[drawing.Settling]) -> None:
        before = len(self.claims)
        # In one order on both: of slices that are due at once, either may come first.
        for _ in settlings:
            self.take([ClaimRequest("load", 1, ALL_LEVELS)], drawing.HOUR)
        self.settle_pairs(list(zip(self.claims[before:], settlings, strict=False)))

    @rule(work=works, shard=shards, offset=windows)
    def cancel(self, work: str, shard: str, offset: timedelta) -> None:
        window = self.now.replace(minute=0, second=0, microsecond=0) + offset
        id = slice_id(identity(CursorKey("etl", work, shard), window))
        self.alike(lambda storage: storage.mailbox.cancel(id, "asked"))

    @rule(work=works, shard=subjects, policy=policies)
    def edit(self, work: str, shard: str, policy: FanoutPolicy) -> None:
        self.alike(lambda storage: storage.fanouts.edit("etl", work, shard, policy, Note("ann", "fanout edit", "it")))

    @rule(work=works, to=st.one_of(st.none(), windows), consumer=st.sampled_from([None, "load"]))
    def seek(self, work: str, to: timedelta | None, consumer: str | None) -> None:
        window, note = None if to is None else self.now + to, Note("ann", "fanout seek")
        self.alike(
            lambda storage: storage.fanouts.seek("etl", work, ["a", "b", "it's 夜|é"], window, consumer, note, "etl")
        )

    @rule(work=works, shard=subjects)
    def reset(self, work: str, shard: str) -> None:
        self.alike(lambda storage: storage.fanouts.reset("etl", work, shard, Note("ann", "fanout reset")))

    @precondition(lambda self: self.now > START)
    @rule(cursors=st.sampled_from([drawing.HOUR, drawing.DAY, 30 * drawing.DAY, None]), limit=drawing.limits)
    def prune(self, cursors: timedelta | None, limit: int) -> None:
        retention = Retention(cursors=cursors, leases=None, audit=None)
        self.alike(lambda storage: storage.upkeep.prune(retention, limit), seen=lambda pruned: pruned.cursors)

    @invariant()
    def everything_to_be_seen_agrees(self) -> None:
        self.alike(_everything)


def _planned(each: Candidate, window: datetime) -> Planning:
    id = slice_id(identity(CursorKey("etl", each.work, each.shard), window))
    return Planning(each.work, each.shard, Draft(id, "slices", b"{}", key=each.shard))


async def _everything(storage: Storage) -> dict[str, Any]:
    fanouts = storage.fanouts
    return {
        "tally": await fanouts.tally(),
        "cursors": [await fanouts.cursors("etl", work, None, 9) for work in ("payments", "refunds")],
        "behind": await fanouts.cursors("etl", "payments", "a", 2, behind=True),
        "policies": [await fanouts.policies("etl", work, None, 9) for work in ("payments", "refunds")],
        "audit": alike.audit(await storage.ledger.audit(None, 1000)),
    }
