"""One history, told to memory and to a database at once: every answer must be the same."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar, get_args
from uuid import UUID

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from mainspring.model.errors import MainspringError
from mainspring.model.message import Claim, Delivery, Draft, Priority, Scan, Want
from mainspring.model.verdict import Settlement
from mainspring.model.views import Beat, DeadSelection, Declaration, Filter, Retention
from mainspring.model.views import State as Stands
from mainspring.storage.contract import Keyed, Storage
from mainspring.storage.memory import MemoryStorage
from tests.lockstep import alike, drawing

T = TypeVar("T")
START = datetime(2030, 1, 1, 12, tzinfo=UTC)
FIRST_GROUPS = [("mailer", ("orders.*",)), ("analytics", ("orders.placed", "orders"))]


class Lockstep(RuleBasedStateMachine):
    """Memory is the specification; the other is the storage that a subclass opens."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.memory: Storage = MemoryStorage()
        self.real = self.runner.run(self.open_real())
        self.runner.run(self.memory.schema.migrate())
        self.claims: list[tuple[Claim, Claim]] = []
        self.new_ids = [UUID(int=number << 64 | 1) for number in range(100, 130)]
        self.now = START
        self.turn(START)

    async def open_real(self) -> Storage:
        """An open, migrated, empty storage."""
        raise NotImplementedError

    async def close_real(self, real: Storage) -> None:
        """Let go of it."""
        await real.close()

    def teardown(self) -> None:
        self.runner.run(self.close_real(self.real))
        self.runner.close()

    # Both at once

    def turn(self, now: datetime) -> None:
        self.now = self.memory.now = self.real.now = now

    def both(self, act: Callable[[Storage], Coroutine[Any, Any, T]]) -> tuple[T, T]:
        return self.runner.run(act(self.memory)), self.runner.run(act(self.real))

    def alike(
        self, act: Callable[[Storage], Coroutine[Any, Any, T]], seen: Callable[[T], Any] = lambda answer: answer
    ) -> T:
        memory, real = self.both(act)
        agree(seen(memory), seen(real))
        return memory

    def holding(self, memory: Delivery | None, real: Delivery | None) -> None:
        assert (real and alike.delivery(real)) == (memory and alike.delivery(memory))
        if memory is not None and real is not None:
            self.claims.append((memory.claim, real.claim))

    def pairs(self, memory: frozenset[Claim], real: frozenset[Claim]) -> None:
        known = {ours: theirs for theirs, ours in self.claims}
        assert {known[each] for each in real} == memory

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

    @rule(wants=drawing.wants, hold=drawing.holds)
    def claim(self, wants: list[drawing.Wanted], hold: timedelta) -> None:
        wanted = [
            Want(group, limit, tuple(Scan(level, None if back is None else self.now - back) for level, back in scans))
            for group, limit, scans in wants
        ]
        memory, real = self.both(lambda storage: storage.mailbox.claim(wanted, "node-1", hold))
        assert len(real) == len(memory)
        for ours, theirs in zip(memory, real, strict=True):
            self.holding(ours, theirs)

    @rule(group=drawing.groups, took=drawing.passing, settlings=st.lists(drawing.settlings, min_size=4, max_size=4))
    def work(self, group: str, took: timedelta, settlings: list[drawing.Settling]) -> None:
        before = len(self.claims)
        self.claim([(group, len(settlings), [(level, None) for level in Priority])], drawing.HOUR)
        self.turn(self.now + took)
        self.settle_pairs(list(zip(self.claims[before:], settlings, strict=False)))

    @rule(group=drawing.groups, hold=drawing.holds)
    def reap(self, group: str, hold: timedelta) -> None:
        self.holding(*self.both(lambda storage: storage.mailbox.reap([group], "node-2", hold)))

    @rule(group=drawing.groups)
    def freeze(self, group: str) -> None:
        self.claim([(group, 2, [(level, None) for level in Priority])], drawing.SECOND)
        self.turn(self.now + drawing.MINUTE)
        self.reap(group, drawing.SECOND)

    @precondition(lambda self: self.claims)
    @rule(chosen=drawing.some_claims, hold=drawing.holds)
    def extend(self, chosen: set[int], hold: timedelta) -> None:
        claims = [self.claims[-1 - number % len(self.claims)] for number in chosen]
        memory, real = (
            self.runner.run(storage.mailbox.extend([each[side] for each in claims], hold))
            for side, storage in enumerate((self.memory, self.real))
        )
        assert real.busy == frozenset()
        self.pairs(memory.lost, real.lost)
        self.pairs(memory.asked, real.asked)

    @precondition(lambda self: self.claims)
    @rule(chosen=drawing.some_claims, settlings=st.lists(drawing.settlings, min_size=4, max_size=4))
    def settle(self, chosen: set[int], settlings: list[drawing.Settling]) -> None:
        claims = [self.claims[-1 - number % len(self.claims)] for number in chosen]
        # One claim of each delivery: whether an older one is lost or gone depends on which is written first.
        each_once = {ours.id: (ours, theirs) for ours, theirs in claims}.values()
        self.settle_pairs(list(zip(each_once, settlings, strict=False)))

    def settle_pairs(self, batch: list[tuple[tuple[Claim, Claim], drawing.Settling]]) -> None:
        memory, real = (
            self.runner.run(storage.mailbox.settle([Settlement(claims[side], *settling) for claims, settling in batch]))
            for side, storage in enumerate((self.memory, self.real))
        )
        self.pairs(memory.lost, real.lost)
        self.pairs(memory.gone, real.gone)

    @rule(number=st.integers(0, 5), keyed=st.booleans())
    def cancel_one_of_the_living(self, number: int, keyed: bool) -> None:
        living = self.runner.run(self.memory.ledger.browse(Filter(limit=number + 1)))
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
            case "retire":
                # All at once: which deliveries a smaller limit takes first is nobody's promise.
                self.alike(lambda storage: storage.controls.retire(group, "ann", 1000))

    @rule(which=drawing.selections, limit=drawing.limits, alive=st.booleans())
    def revive_or_discard(self, which: DeadSelection, limit: int, alive: bool) -> None:
        if alive:
            self.alike(lambda storage: storage.controls.revive(which, "ann", limit))
        else:
            self.alike(lambda storage: storage.controls.discard(which, "ann", limit))

    @precondition(lambda self: self.new_ids)
    @rule(which=st.integers(0, 3), draft=drawing.drafts)
    def replace_a_dead_letter(self, which: int, draft: Draft) -> None:
        dead = self.runner.run(self.memory.ledger.browse(Filter(state="dead", limit=which + 1)))
        message_id, group = (dead[-1].message_id, dead[-1].group) if dead else (drawing.IDS[which], "mailer")
        better = replace(draft, id=self.new_ids.pop(), group=group)
        self.alike(lambda storage: storage.controls.replace(message_id, group, "ann", better))

    # Upkeep

    @rule(declarations=drawing.declarations)
    def declare(self, declarations: list[Declaration]) -> None:
        async def declared(storage: Storage) -> str:
            try:
                await storage.upkeep.declare(declarations)
            except MainspringError as error:  # of several conflicts any one may be named
                return type(error).__name__
            return "declared"

        self.alike(declared)

    @rule(beat=drawing.beats, leaves=st.booleans())
    def beat(self, beat: Beat, leaves: bool) -> None:
        self.alike(lambda storage: storage.upkeep.beat(beat))
        if leaves:
            self.alike(lambda storage: storage.upkeep.farewell(beat.worker))

    @rule(retention=drawing.retentions, limit=drawing.limits)
    def keep_up(self, retention: Retention, limit: int) -> None:
        self.alike(lambda storage: storage.upkeep.reroute(limit))
        self.alike(lambda storage: storage.upkeep.prune(retention, 1000))

    # After every step

    @invariant()
    def everything_to_be_seen_agrees(self) -> None:
        self.alike(_everything)


async def _everything(storage: Storage) -> dict[str, Any]:
    ledger = storage.ledger
    seen = {
        "tally": await ledger.tally(1000),
        "upcoming": await storage.mailbox.upcoming(drawing.GROUPS),
        "roster": alike.roster(await ledger.roster()),
        "audit": alike.audit(await ledger.audit(None, 1000)),
    }
    for state in get_args(Stands):
        seen[state] = alike.listing(await ledger.browse(Filter(state=state, limit=1000)))
    for message_id in drawing.IDS:
        seen[str(message_id)] = alike.message(await ledger.find(message_id))
    return seen


def agree(memory: Any, real: Any) -> None:
    """Fail with the part that is out of step, not with everything there is."""
    if memory == real:
        return
    if isinstance(memory, dict):
        (memory, real), *_ = [(memory[part], real[part]) for part in memory if memory[part] != real[part]]
    raise AssertionError(f"out of step\n  memory: {memory}\n  real:   {real}")
