"""Histories of schedules: written, looked at, entered by hand and frozen, while what they publish is handled."""

from collections.abc import Collection
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Literal
from uuid import NAMESPACE_URL, uuid5

from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule

from mainspring.model.message import ALL_LEVELS, ClaimRequest, Draft
from mainspring.model.schedule import NEVER, Decide, Due, Note, Occurrence, Rewrite, Schedule, ScheduleAdvance
from mainspring.model.search import DeadSelection, Filter
from mainspring.model.verdict import DONE, Bury, Cancel, Failure, Release, Retry, Verdict
from mainspring.model.views import Beat, Declaration
from mainspring.model.worker import Declarer
from mainspring.storage.contract import Storage
from tests.lockstep import alike, drawing
from tests.lockstep.twins import FIRST_GROUPS, Twins

Change = Literal["add", "due", "edit", "pause", "resume", "remove", "same"]
Policy = Literal["allow", "free", "queue", "cancel", "jitter", "all", "skip", "leave"]
NOTE = Note("ann", "edit", "because")

apps = st.sampled_from(["shop", "shop", "shop", "crm"])
names = st.sampled_from(drawing.SCHEDULES)
some_names = st.lists(names, min_size=1, max_size=3)
changes: st.SearchStrategy[Change] = st.sampled_from(("add", "due", "due", "edit", "pause", "resume", "remove", "same"))
policies: st.SearchStrategy[Policy] = st.sampled_from(
    ("allow", "free", "queue", "cancel", "jitter", "all", "skip", "leave")
)
receivers = st.sampled_from([*drawing.GROUPS, "orders.placed", "orders.placed", "invoices.sent"])
"""One group, or the subscribers of a topic; nobody is subscribed to the last."""
passing = st.sampled_from([drawing.SECOND, drawing.MINUTE, drawing.MINUTE, drawing.HOUR])
verdicts: st.SearchStrategy[Verdict] = st.sampled_from(
    (
        DONE,
        DONE,
        Retry(drawing.MINUTE, Failure("error", "boom")),
        Release(),
        Bury(Failure("error", "boom")),
        Cancel("obsolete"),
    )
)


class Timetabled(Twins):
    """All that is done to schedules, and what becomes of their occurrences."""

    @initialize(policy=policies, receiver=receivers)
    def begin(self, policy: Policy, receiver: str) -> None:
        declared = [Declaration(group, "shop", patterns, "old") for group, patterns in FIRST_GROUPS]
        self.alike(lambda storage: storage.upkeep.declare(declared))
        self.become_due(drawing.SCHEDULES[0], policy, receiver)

    @rule(by=passing)
    def time_passes(self, by: timedelta) -> None:
        self.turn(self.now + by)

    # The timetable

    @rule(wanted=some_names, change=changes, app=apps, noted=st.booleans())
    def rewrite(self, wanted: list[str], change: Change, app: str, noted: bool) -> None:
        how = rewriting(change, app)
        self.alike(lambda storage: storage.timetable.rewrite(wanted, how, NOTE if noted else None))

    @rule(app=apps, policy=policies, receiver=receivers, limit=drawing.limits, leave=st.sets(names, max_size=1))
    def look(self, app: str, policy: Policy, receiver: str, limit: int, leave: Collection[str]) -> None:
        decide = deciding(policy, receiver)
        self.alike(lambda storage: storage.timetable.tick(app, decide, limit, leave))

    @rule(name=names, policy=policies, receiver=receivers)
    def become_due(self, name: str, policy: Policy, receiver: str) -> None:
        self.rewrite([name], "due", "shop", noted=False)
        self.look("shop", policy, receiver, 1000, ())

    @rule(name=names, receiver=receivers)
    def queue_up(self, name: str, receiver: str) -> None:
        for _ in range(3):
            self.become_due(name, "queue", receiver)
            self.turn(self.now + drawing.SECOND)

    @rule(name=names, receiver=receivers, waits=st.booleans(), manual=st.booleans())
    def enter(self, name: str, receiver: str, waits: bool, manual: bool) -> None:
        entered = occurrence(name, self.now, receiver, NEVER if waits else None, manual=manual)
        self.alike(lambda storage: storage.timetable.enter([entered], NOTE))

    @rule(name=names, receiver=receivers, of_one=st.booleans())
    def allow_overlaps(self, name: str, receiver: str, of_one: bool) -> None:
        """What waits need not any more: of this schedule, or of all that are due."""
        self.queue_up(name, receiver)
        self.rewrite([name] if of_one else list(drawing.SCHEDULES), "due", "shop", noted=False)
        self.look("shop", "free", receiver, 1000, ())

    @rule(group=drawing.groups)
    def serve(self, group: str) -> None:
        beat = Beat("node-1", "shop", "host-1", 1, (group,), 0, "poll", {})
        self.alike(lambda storage: storage.upkeep.beat(beat))

    @rule(app=apps, declared=some_names, worker=st.sampled_from("ab"), retire=some_names, version=st.integers(0, 1))
    def declare_or_retire(self, app: str, declared: list[str], worker: str, retire: list[str], version: int) -> None:
        by = Declarer(f"{app}/{worker}", worker)
        self.alike(lambda storage: storage.timetable.declare(app, version, declared, by, retire))
        self.alike(lambda storage: storage.timetable.declarers(drawing.SCHEDULES[0]))

    @rule(app=st.sampled_from(["shop", ""]), thaw=st.sampled_from([True, True, False]))
    def freeze_or_thaw(self, app: str, thaw: bool) -> None:
        if thaw:
            self.alike(lambda storage: storage.timetable.thaw(app, "ann"))
        else:
            self.alike(lambda storage: storage.timetable.freeze(app, "ann", "upgrade"))

    # What has been published

    @rule(group=drawing.groups, limit=st.sampled_from([1, 1000]))
    def hold(self, group: str, limit: int) -> None:
        self.take([ClaimRequest(group, limit, ALL_LEVELS)], drawing.HOUR)

    @rule(verdict=verdicts, count=st.sampled_from([1, 1000]), replaces=st.booleans())
    def finish(self, verdict: Verdict, count: int, replaces: bool = True) -> None:
        self.settle_pairs([(pair, (verdict, "all", timedelta(), False, replaces)) for pair in self.claims[-count:]])
        del self.claims[-count:]

    @rule(verdict=verdicts, times=st.integers(1, 3), app=apps)
    def work_off(self, verdict: Verdict, times: int, app: str) -> None:
        for _ in range(times):
            self.take([ClaimRequest(group, 1000, ALL_LEVELS) for group in drawing.GROUPS], drawing.HOUR)
            self.finish(verdict, 1000)
            self.look(app, "leave", drawing.GROUPS[0], 1000, ())

    @rule(name=names, verdict=verdicts, policy=st.sampled_from(("skip", "queue", "cancel")))
    def leave_one_group_behind(self, name: str, verdict: Verdict, policy: Policy) -> None:
        """One of two groups goes on with its copy, and nobody serves the other."""
        self.become_due(name, "allow", "orders.placed")
        self.take([ClaimRequest("mailer", 1000, ALL_LEVELS)], drawing.HOUR)
        self.turn(self.now + drawing.MINUTE * 6)
        self.serve("mailer")
        self.finish(verdict, 1000)
        self.become_due(name, policy, "orders.placed")

    @rule(oldest=st.booleans())
    def cancel(self, oldest: bool) -> None:
        living = self.runner.run(self.sqlite.ledger.browse(Filter(limit=1000))).rows
        if living:
            which = living[-1 if oldest else 0].message_id
            self.alike(lambda storage: storage.mailbox.cancel(which, "obsolete"))

    @rule()
    def revive(self) -> None:
        self.alike(lambda storage: storage.controls.revive(DeadSelection(), "ann", 1000))

    @rule()
    def reroute(self) -> None:
        late = Declaration("direct", "shop", ("invoices.sent",), "old")
        self.alike(lambda storage: storage.upkeep.declare([late]))
        self.alike(lambda storage: storage.upkeep.reroute(1000))
        # Who is subscribed for ever would let nothing be parked again.
        self.alike(lambda storage: storage.upkeep.declare([replace(late, patterns=())]))

    @invariant()
    def everything_to_be_seen_agrees(self) -> None:
        self.alike(_everything)


def rewriting(change: Change, app: str) -> Rewrite:
    """A change as a pure function of what is there and what time it is."""

    def how(name: str, known: Schedule | None, now: datetime) -> Schedule | None:
        match change:
            case "add" | "due" if known is None:
                due = now if change == "due" else now + drawing.MINUTE
                return Schedule(name, app, "code", {"cron": name}, now, now, now, due)
            case "due" | "edit" | "pause" | "resume" if known is not None:
                return replace(known, **changed(known, now))
            case "remove":
                return None
            case _:
                return known

    def changed(known: Schedule, now: datetime) -> dict[str, Any]:
        fields: dict[str, dict[str, Any]] = {
            "due": {"app": app, "next_at": now, "paused_at": None, "retired_at": None},
            "edit": {"origin": "api", "edits": {"count": known.edits.get("count", 0) + 1}},
            "pause": {"paused_at": now, "paused_by": "ann", "pause_reason": "upgrade"},
            "resume": {"paused_at": None, "paused_by": None, "pause_reason": None},
        }
        return fields[change]

    return how


def deciding(policy: Policy, receiver: str) -> Decide:
    """A policy as a pure function of what is due, how its earlier runs are doing, and what time it is."""

    def decide(due: Due, now: datetime) -> ScheduleAdvance | None:
        name, at = due.schedule.name, due.schedule.next_at
        assert at is not None
        busy = due.unfinished + due.waiting > 0
        match policy:
            case "leave":
                return None
            case "skip":
                return ScheduleAdvance(at, now + drawing.HOUR, missed=1, skipped=due.unfinished)
            case "all":
                missed = tuple(occurrence(name, at - each * drawing.MINUTE, receiver) for each in (2, 1, 0))
                return ScheduleAdvance(at, None, missed)
            case "jitter":
                later = occurrence(name, at, receiver, at + drawing.MINUTE)
                return ScheduleAdvance(at, now + drawing.MINUTE, (later,))
            case _:
                due_at = NEVER if busy and policy not in ("allow", "free") else None
                return ScheduleAdvance(
                    at,
                    now + drawing.MINUTE,
                    (occurrence(name, at, receiver, due_at),),
                    stop_running=policy == "cancel",
                    release_waiting=policy == "free",
                )

    return decide


def occurrence(
    name: str, at: datetime, receiver: str, due_at: datetime | None = None, *, manual: bool = False
) -> Occurrence:
    """One due time, under an id that derives from it."""
    message_id = uuid5(NAMESPACE_URL, f"{name} {at.isoformat()}")
    group = receiver if receiver in drawing.GROUPS else None
    return Occurrence(Draft(message_id, receiver, b"", group=group, at=at, schedule=name, manual=manual), due_at)


async def _everything(storage: Storage) -> dict[str, Any]:
    ledger = storage.ledger
    latest = await ledger.recent(drawing.SCHEDULES, 1)
    return {
        "sheet": await storage.timetable.read(),
        "live": alike.listing((await ledger.browse(Filter(limit=1000))).rows),
        "parked": alike.listing((await ledger.browse(Filter(state="parked", limit=1000))).rows),
        "audit": alike.audit(await ledger.audit(None, 1000)),
        # Of two runs that one settle has written, either may be the later.
        "latest": {name: run.finished_at for name, (run,) in latest.items()},
        **{name: alike.runs(await ledger.runs(None, None, 1000, schedule=name)) for name in drawing.SCHEDULES},
    }
