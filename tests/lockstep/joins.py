"""Histories of joins: opened, sent again, their members handled, cancelled, retired and revived, and looked after."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from mainspring.model.join import Join, JoinView
from mainspring.model.message import ALL_LEVELS, ClaimRequest, Draft
from mainspring.model.schedule import Due
from mainspring.model.search import DeadSelection, Filter
from mainspring.model.verdict import Bury, Cancel, Done, Failure, Release, Retry, Settlement, Verdict
from mainspring.model.views import Declaration
from mainspring.storage.contract import Keyed, Storage
from tests.lockstep import alike, drawing
from tests.lockstep.twins import Twins

BOSS = "boss"
MEMBERS = [UUID(int=number << 64 | 3) for number in range(1, 25)]
JOINS = [UUID(int=number << 64 | 5) for number in range(1, 9)]

members = st.lists(
    st.builds(
        Draft,
        id=st.sampled_from(MEMBERS),
        topic=st.just("photos.resize"),
        payload=st.binary(max_size=4),
        headers=st.none() | st.just({"a": "b"}),
        key=st.none() | drawing.keys,
        group=drawing.groups,
        priority=drawing.levels,
        delay=st.sampled_from([timedelta(), timedelta(), drawing.MINUTE]),
    ),
    min_size=1,
    max_size=4,
    unique_by=lambda draft: draft.id,
)
continuations = st.none() | st.builds(
    Draft,
    id=st.just(UUID(int=0)),
    topic=st.sampled_from(["done", "failed"]),
    payload=st.binary(max_size=4),
    headers=st.none() | st.just({"c": "夜"}),
    key=st.none() | drawing.keys,
    group=st.just(BOSS),
    priority=drawing.levels,
    correlation_id=st.none() | st.just("it's"),
    causation_id=st.none() | st.sampled_from(MEMBERS),
)
verdicts: st.SearchStrategy[Verdict] = st.sampled_from(
    (
        Done(),
        Done(),
        Done("42 rows"),
        Retry(timedelta(), Failure("error", "boom")),
        Release(),
        Bury(Failure("error", "boom")),
        Cancel("obsolete"),
    )
)


class Joined(Twins):
    """All that becomes of members, and what follows them."""

    @initialize(drafts=members, then=continuations, failed=continuations)
    def begin(self, drafts: list[Draft], then: Draft | None, failed: Draft | None) -> None:
        self.ids = list(JOINS)
        self.opened: list[tuple[Join, list[Draft]]] = []
        self.declare()
        self.open(drafts, then, failed)

    @rule(by=drawing.passing)
    def time_passes(self, by: timedelta) -> None:
        self.turn(self.now + by)

    @precondition(lambda self: self.ids)
    @rule(drafts=members, then=continuations, failed=continuations)
    def open(self, drafts: list[Draft], then: Draft | None, failed: Draft | None) -> None:
        join = Join(self.ids.pop(0), then, failed)
        self.opened.append((join, drafts))
        self.alike(lambda storage: storage.mailbox.join(join, drafts))

    @precondition(lambda self: self.opened)
    @rule(which=st.integers(0, 7))
    def send_again(self, which: int) -> None:
        join, drafts = self.opened[which % len(self.opened)]
        if any(self.runner.run(self.sqlite.ledger.find(each.id)) is None for each in drafts):
            return  # forgotten: nobody sends again after so long
        self.alike(lambda storage: storage.mailbox.join(join, drafts))

    @rule(verdicts=st.lists(verdicts, min_size=6, max_size=6), keep=drawing.keeps)
    def work(self, verdicts: list[Verdict], keep: Any) -> None:
        wants = [ClaimRequest(group, 2, ALL_LEVELS) for group in drawing.GROUPS]
        before = len(self.claims)
        self.take(wants, drawing.HOUR)
        batch = list(zip(self.claims[before:], verdicts, strict=False))
        sqlite, postgres = (
            self.runner.run(
                storage.mailbox.settle(
                    [Settlement(pair[side], each, keep, member=True) for pair, each in batch], "node-1"
                )
            )
            for side, storage in enumerate((self.sqlite, self.postgres))
        )
        self.pairs(sqlite.lost, postgres.lost)
        self.pairs(sqlite.gone, postgres.gone)

    @rule(group=drawing.groups)
    def hold(self, group: str) -> None:
        self.take([ClaimRequest(group, 1, ALL_LEVELS)], drawing.HOUR)

    @rule(group=drawing.groups)
    def reap(self, group: str) -> None:
        self.holding(*self.both(lambda storage: storage.mailbox.reap([group], "node-2", drawing.HOUR)))

    @rule(which=st.sampled_from(MEMBERS) | st.builds(Keyed, st.just("photos.resize"), drawing.keys))
    def cancel(self, which: UUID | Keyed) -> None:
        self.alike(lambda storage: storage.mailbox.cancel(which, "obsolete"))

    @rule(group=drawing.groups)
    def retire(self, group: str) -> None:
        self.alike(lambda storage: storage.controls.retire(group, "ann", 1000))
        self.declare()

    @rule()
    def revive(self) -> None:
        self.alike(lambda storage: storage.controls.revive(DeadSelection(), "ann", 1000))

    @precondition(lambda self: self.new_ids)
    @rule(draft=drawing.drafts)
    def replace_a_dead_letter(self, draft: Draft) -> None:
        dead = self.runner.run(self.sqlite.ledger.browse(Filter(state="dead", limit=1))).rows
        if dead:
            better = replace(draft, id=self.new_ids.pop(), group=dead[0].group)
            self.alike(lambda storage: storage.controls.replace(dead[0].message_id, dead[0].group, "ann", better))

    @rule()
    def look(self) -> None:
        self.alike(lambda storage: storage.timetable.tick("shop", _leave, 1000))

    @rule(after=st.none() | st.sampled_from(JOINS), limit=st.integers(1, 4))
    def recount(self, after: UUID | None, limit: int) -> None:
        self.alike(lambda storage: storage.upkeep.recount(after, limit))

    @rule()
    def follow(self) -> None:
        self.look()
        self.take([ClaimRequest(BOSS, 1000, ALL_LEVELS)], drawing.HOUR)

    def declare(self) -> None:
        declared = [Declaration(group, "shop", (), "old") for group in (*drawing.GROUPS, BOSS)]
        self.alike(lambda storage: storage.upkeep.declare(declared))

    @invariant()
    def everything_to_be_seen_agrees(self) -> None:
        ids = self.met(*MEMBERS, *JOINS)
        self.alike(lambda storage: _everything(storage, ids))


def _leave(_due: Due, _now: object) -> None:
    """There are no schedules."""


async def _members(storage: Storage, join: JoinView) -> Any:
    """The open members of a join. Their order across groups is nobody's promise, and so which of them is the oldest."""
    members = await storage.ledger.members(join.id, None, 1000)
    assert join == await storage.ledger.find_join(join.id)
    assert join.oldest == (members[0] if members else None)
    assert len(members) == join.members - join.ended
    return alike.listing(members[::-1])


async def _everything(storage: Storage, ids: Sequence[UUID]) -> dict[str, Any]:
    ledger = storage.ledger
    joins = await ledger.joins(None, 1000)
    return {
        "joins": [replace(each, oldest=None) for each in joins],
        "oldest": await _members(storage, joins[0]) if joins else None,
        "live": alike.listing((await ledger.browse(Filter(limit=1000))).rows),
        "dead": alike.listing((await ledger.browse(Filter(state="dead", limit=1000))).rows),
        **{str(each): alike.message(await ledger.find(each)) for each in ids},
    }
