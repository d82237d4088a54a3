"""Histories of messages: published, claimed, settled, cancelled, governed and pruned."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, get_args
from uuid import UUID

from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from mainspring.model.errors import MainspringError
from mainspring.model.measures import SPANS
from mainspring.model.message import ClaimRequest, Delivery, Draft, Priority, Progress, Scan, UniqueKey
from mainspring.model.retention import Retention
from mainspring.model.search import UNFINISHED, DeadSelection, Filter, Line
from mainspring.model.views import Beat, Declaration, DeliveryView
from mainspring.model.views import State as Stands
from mainspring.model.worker import Declarer, DeclareResult
from mainspring.storage.contract import Keyed, Storage
from tests.lockstep import alike, drawing
from tests.lockstep.twins import FIRST_GROUPS, Twins


class Lockstep(Twins):
    """All that is done to messages."""

    # Every history begins with two groups and something for them to do

    @initialize(drafts=drawing.batches)
    def begin(self, drafts: list[drawing.Timed]) -> None:
        self.declare([Declaration(group, "shop", patterns, "old") for group, patterns in FIRST_GROUPS])
        self.publish(drafts)

    @rule(by=drawing.passing)
    def time_passes(self, by: timedelta) -> None:
        self.turn(self.now + by)

    # Mailbox

    @rule(drafts=drawing.batches)
    def publish(self, drafts: list[drawing.Timed]) -> None:
        batch = [
            each if offset is None else replace(each, at=self.now + offset, expires_at=self.now + 2 * offset)
            for each, offset in drafts
        ]
        self.alike(lambda storage: storage.mailbox.publish(batch))

    @rule(draft=drawing.drafts, likeness=drawing.likenesses)
    def publish_unique(self, draft: Draft, likeness: UniqueKey) -> None:
        self.alike(lambda storage: storage.mailbox.publish_unique(draft, likeness))

    @rule(wants=drawing.wants, hold=drawing.holds)
    def claim(self, wants: list[drawing.Wanted], hold: timedelta) -> None:
        wanted = [
            ClaimRequest(
                group, limit, tuple(Scan(level, None if back is None else self.now - back) for level, back in scans)
            )
            for group, limit, scans in wants
        ]
        self.take(wanted, hold)

    @rule(group=drawing.groups, took=drawing.passing, settlings=st.lists(drawing.settlings, min_size=4, max_size=4))
    def work(self, group: str, took: timedelta, settlings: list[drawing.Settling]) -> None:
        before = len(self.claims)
        self.claim([(group, len(settlings), [(level, None) for level in Priority])], drawing.HOUR)
        self.turn(self.now + took)
        self.settle_pairs(list(zip(self.claims[before:], settlings, strict=False)))

    @rule(group=drawing.groups, hold=drawing.holds, accused=st.booleans(), owner=drawing.owners, aside=st.booleans())
    def reap(
        self, group: str, hold: timedelta, *, accused: bool = True, owner: str = "node-2", aside: bool = False
    ) -> None:
        async def reaped(storage: Storage) -> Delivery | None:
            ours = [each[storage is self.postgres] for each in self.claims] if aside else []
            return await storage.mailbox.reap([group], owner, hold, accused=accused, aside=ours)

        self.holding(*self.both(reaped))

    @rule(group=drawing.groups)
    def freeze(self, group: str) -> None:
        self.claim([(group, 2, [(level, None) for level in Priority])], drawing.SECOND)
        self.turn(self.now + drawing.MINUTE)
        self.reap(group, drawing.SECOND)

    @precondition(lambda self: self.claims)
    @rule(chosen=drawing.some_claims, owner=drawing.owners, hold=drawing.holds)
    def extend(self, chosen: set[int], owner: str, hold: timedelta) -> None:
        claims = [self.claims[-1 - number % len(self.claims)] for number in chosen]
        sqlite, postgres = (
            self.runner.run(storage.mailbox.extend([each[side] for each in claims], owner, hold))
            for side, storage in enumerate((self.sqlite, self.postgres))
        )
        assert postgres.busy == frozenset()
        self.pairs(sqlite.lost, postgres.lost)
        self.pairs(sqlite.asked, postgres.asked)

    @precondition(lambda self: self.claims)
    @rule(
        chosen=drawing.some_claims, owner=drawing.owners, settlings=st.lists(drawing.settlings, min_size=4, max_size=4)
    )
    def settle(self, chosen: set[int], owner: str, settlings: list[drawing.Settling]) -> None:
        claims = [self.claims[-1 - number % len(self.claims)] for number in chosen]
        # One claim of each delivery: whether an older one is lost or gone depends on which is written first.
        each_once = {ours.id: (ours, theirs) for ours, theirs in claims}.values()
        self.settle_pairs(list(zip(each_once, settlings, strict=False)), owner)

    @precondition(lambda self: self.claims)
    @rule(chosen=drawing.some_claims, owner=drawing.owners, text=drawing.sayings)
    def report(self, chosen: set[int], owner: str, text: str) -> None:
        claims = [self.claims[-1 - number % len(self.claims)] for number in chosen]
        for side, storage in enumerate((self.sqlite, self.postgres)):
            self.runner.run(storage.upkeep.report([Progress(each[side], text) for each in claims], owner))

    @rule(number=st.integers(0, 5), keyed=st.booleans())
    def cancel_one_of_the_living(self, number: int, keyed: bool) -> None:
        living = self.runner.run(self.sqlite.ledger.browse(Filter(limit=number + 1))).rows
        if living:
            view = living[-1]
            self.cancel(Keyed(view.topic, view.key) if keyed and view.key else view.message_id)

    @rule(which=drawing.message_ids | st.builds(Keyed, drawing.topics, drawing.keys))
    def cancel(self, which: UUID | Keyed) -> None:
        self.alike(lambda storage: storage.mailbox.cancel(which, "obsolete"))

    # Controls

    @rule(group=drawing.groups, action=drawing.actions)
    def govern(self, group: str, action: drawing.Action) -> None:
        match action:
            case "pause":
                self.alike(lambda storage: storage.controls.pause(group, "ann", "upgrade"))
            case "resume":
                self.alike(lambda storage: storage.controls.resume(group, "ann"))
            case "release":
                self.alike(lambda storage: storage.controls.release(group, "ann", 1000, None))
            case "retire":
                # All at once: which deliveries a smaller limit takes first is nobody's promise.
                self.alike(lambda storage: storage.controls.retire(group, "ann", 1000))

    @rule(which=drawing.selections, limit=drawing.limits, alive=st.booleans())
    def revive_or_discard(self, which: DeadSelection, limit: int, alive: bool) -> None:
        if alive:
            self.alike(lambda storage: storage.controls.revive(which, "ann", limit))
        else:
            self.alike(lambda storage: storage.controls.discard(which, "ann", limit))

    @rule(state=drawing.states, number=st.integers(1, 4), what=drawing.steerings)
    def steer_those_picked(self, state: Stands, number: int, what: drawing.Steering) -> None:
        found = self.runner.run(self.sqlite.ledger.browse(Filter(state=state, limit=number))).rows
        picked = tuple((each.message_id, each.group) for each in found)
        which = DeadSelection(picked=picked)
        match what:
            case "revive":
                self.alike(lambda storage: storage.controls.revive(which, "ann", number))
            case "discard":
                self.alike(lambda storage: _discarded_by_line(storage, which, number))
            case "run_now":
                self.alike(lambda storage: storage.controls.run_now(picked, "ann"))
            case "cancel":
                self.alike(lambda storage: storage.controls.cancel(picked, "ann", "obsolete"))

    @rule(worker=st.sampled_from(["node-1", "node-2"]), drains=st.booleans())
    def drain(self, worker: str, drains: bool) -> None:
        if drains:
            self.alike(lambda storage: storage.controls.drain(worker, "ann", "deploy"))
        else:
            self.alike(lambda storage: storage.controls.resume_worker(worker, "ann"))

    @precondition(lambda self: self.new_ids)
    @rule(which=st.integers(0, 3), draft=drawing.drafts)
    def replace_a_dead_letter(self, which: int, draft: Draft) -> None:
        dead = self.runner.run(self.sqlite.ledger.browse(Filter(state="dead", limit=which + 1))).rows
        message_id, group = (dead[-1].message_id, dead[-1].group) if dead else (drawing.IDS[which], "mailer")
        better = replace(draft, id=self.new_ids.pop(), group=group)
        self.alike(lambda storage: storage.controls.replace(message_id, group, "ann", better))

    # Ledger

    @rule(wanted=drawing.filters)
    def search(self, wanted: Filter) -> None:
        self.alike(lambda storage: _all_pages(storage, wanted), alike.listing)

    # Upkeep

    @rule(declarations=drawing.declarations, declarer=drawing.declarers)
    def declare(self, declarations: list[Declaration], declarer: Declarer | None = None) -> None:
        async def declared(storage: Storage) -> DeclareResult | str:
            try:
                return await storage.upkeep.declare(declarations, declarer)
            except MainspringError as error:  # of several conflicts any one may be named
                return type(error).__name__

        self.alike(declared)

    @rule(beat=drawing.beats, leaves=st.booleans())
    def beat(self, beat: Beat, leaves: bool) -> None:
        self.alike(lambda storage: storage.upkeep.beat(beat))
        if leaves:
            self.alike(lambda storage: storage.upkeep.deregister(beat.worker))

    @rule(declarer=drawing.declarers)
    def leave(self, declarer: Declarer | None) -> None:
        if declarer is not None:
            self.alike(lambda storage: storage.upkeep.deregister(declarer.worker, declarer.start_id))

    @rule(retention=drawing.retentions, limit=drawing.limits)
    def keep_up(self, retention: Retention, limit: int) -> None:
        self.alike(lambda storage: storage.upkeep.reroute(limit))
        self.alike(lambda storage: storage.upkeep.prune(retention, 1000))

    @rule(retention=drawing.retentions, topic=st.sampled_from(drawing.PATTERNS))
    def prune_topic(self, retention: Retention, topic: str) -> None:
        self.alike(lambda storage: storage.upkeep.prune(retention, 1000, topic))
        self.alike(lambda storage: storage.controls.note("prune", topic, "ann", "some"), lambda _: None)

    # After every step

    @invariant()
    def everything_to_be_seen_agrees(self) -> None:
        ids = self.met(*drawing.IDS)
        self.alike(lambda storage: _everything(storage, ids))


async def _all_pages(storage: Storage, wanted: Filter) -> list[DeliveryView]:
    page = await storage.ledger.browse(wanted)
    rows = list(page.rows)
    while page.before is not None:
        page = await storage.ledger.browse(replace(wanted, before=page.before))
        assert page.scanned <= wanted.scan
        rows += page.rows
    return rows


async def _everything(storage: Storage, ids: Sequence[UUID]) -> dict[str, Any]:
    ledger = storage.ledger
    seen = {
        "tally": await ledger.tally(1000),
        "upcoming": await storage.mailbox.upcoming(drawing.GROUPS),
        "pending": await ledger.pending(dict.fromkeys(drawing.GROUPS, 3)),
        "roster": alike.roster(await ledger.roster()),
        "audit": alike.audit(await ledger.audit(None, 1000)),
        "measures": [await storage.measures.read(span, 2 * kept, "") for span, kept in SPANS.items()],
        "paces": await storage.measures.rates(drawing.HOUR),
    }
    for state in (*get_args(Stands), "retrying"):
        seen[state] = alike.listing((await ledger.browse(Filter(state=state, limit=1000))).rows)
    for message_id in ids:
        seen[str(message_id)] = alike.message(await ledger.find(message_id))
        seen[f"chain of {message_id}"] = await ledger.chain(message_id, 1000)
    return seen


async def _discarded_by_line(storage: Storage, which: DeadSelection, limit: int) -> int:
    """A batch of something larger, which has one line in the audit."""
    line = Line(await storage.controls.note("discard", "some", "ann", f"0 discarded; {UNFINISHED}"), "discarded")
    discarded = await storage.controls.discard(which, line, limit)
    await storage.controls.amend(line.id, "ended")
    return discarded
