"""Bugs put in on purpose, in a worker process: checkers that do not report them have no teeth."""

import asyncio
from collections.abc import Coroutine, Sequence
from datetime import datetime
from typing import Any, cast
from uuid import uuid4

from mainspring.app.consume import consumer
from mainspring.model.message import Claim, Settled
from mainspring.model.schedule import Schedule
from mainspring.model.verdict import Settlement
from mainspring.runtime import handler
from mainspring.runtime.janitor import Recounting
from mainspring.runtime.scheduler import Scheduler
from mainspring.runtime.schedules import decisions as deciding
from mainspring.runtime.schedules import declarations as reconciling
from mainspring.runtime.schedules.declarations import Declared
from mainspring.runtime.settler import Settler
from mainspring.runtime.worker import Worker
from mainspring.storage.contract import Mailbox
from mainspring.storage.portable import statements
from mainspring.storage.postgres import dialect
from mainspring.storage.postgres.dialect import Names
from mainspring.storage.script import Statement
from tests.faults.plan import Plan
from tests.faults.tables import tables_of

_LATER = 0.5
_tasks: set[asyncio.Task[None]] = set()


def later(effect: Coroutine[Any, Any, None]) -> None:
    """Acknowledge before the effect: the handler returns, and what it should have done comes after."""

    async def run() -> None:
        await asyncio.sleep(_LATER)
        await effect

    task = asyncio.create_task(run())
    _tasks.add(task)
    task.add_done_callback(_tasks.discard)


def seed(plan: Plan) -> None:
    """Put the plan's bug into this process; ``early``, ``piecemeal`` and ``unlimited`` are in the handlers."""
    match plan.bug:
        case "unfenced":
            remove_the_fence(plan)
        case "follower":
            leave_schedules_to_the_leader()
        case "leader":
            keep_next_times_in_memory()
        case "unlocked":
            unlock_the_timetable()
        case "apart":
            advance_and_publish_apart()
        case "uncounted":
            leave_ends_uncounted()
        case "standing":
            advance_no_cursor()
        case "early" | "piecemeal" | "unlimited" | None:
            pass


def leave_ends_uncounted() -> None:
    """Settle members of joins as if they were messages like others, as an older release does, and never recount."""

    async def rest(_: Recounting) -> float:
        return 60.0

    assert "is_member" in vars(handler), "it is asked elsewhere: the bug is not seeded"
    vars(handler)["is_member"] = lambda _: False
    Recounting.turn = rest  # type: ignore[method-assign, assignment]


def advance_no_cursor() -> None:
    """Settle slices as if they were messages like others."""
    assert "CursorAdvance" in vars(consumer), "it is asked elsewhere: the bug is not seeded"
    vars(consumer)["CursorAdvance"] = type(None)


def leave_schedules_to_the_leader() -> None:
    """Never look at the timetable: another process does."""

    async def rest(_: Scheduler) -> float:
        return 60.0

    Scheduler.turn = rest  # type: ignore[method-assign, assignment]


def keep_next_times_in_memory() -> None:
    """Reckon every next time from the start of this process, as a leader does that keeps them in its memory."""

    def anew(row: Schedule, wanted: Declared, version: int, now: datetime) -> Schedule:
        return reconciling.rescheduled(row, now, wanted.code)

    reconciling._updated = anew


def unlock_the_timetable() -> None:
    """Neither lock due rows nor ask whether they are where they were, and number messages by chance."""
    load = statements.load
    assert "load" in vars(dialect), "statements are made elsewhere: the bug is not seeded"
    changed = {
        "timetable_due": ("FOR UPDATE SKIP LOCKED", ""),
        "timetable_move": (
            "AND s.next_at = v.old_next_at AND s.revision = v.revision",
            # However far apart they wake on a busy machine: others read the rows before they have moved.
            f"AND (SELECT pg_sleep({_LATER}))::text IS NOT NULL",
        ),
    }

    def unlocked(package: str, name: str, schema: str) -> str:
        text = load(package, name, schema)
        before, after = changed.get(name, ("", ""))
        assert before in text, f"{name} is not what it was: the bug is not seeded"
        return text.replace(before, after) if before else text

    vars(dialect)["load"] = unlocked
    deciding.uuid5 = lambda *_: uuid4()  # type: ignore[attr-defined]


def advance_and_publish_apart() -> None:
    """Commit every statement of a tick by itself."""
    opening = Names.opening

    def apart(names: Names, name: str, *args: Any) -> Statement:
        return names(name, *args) if name == "timetable_due" else opening(names, name, *args)

    Names.opening = apart  # type: ignore[method-assign, assignment]


def remove_the_fence(plan: Plan) -> None:
    """Settle under whatever epoch the row has now, as a statement without `AND epoch = …` would.

    Nor is a handler told that its claim is lost: whether the keeper or the handler is faster would be left to chance.
    """
    build = Settler.__init__

    def unfenced(settler: Settler, mailbox: Any, *others: Any) -> None:
        build(settler, cast("Mailbox", _Unfenced(mailbox, plan)), *others)

    Settler.__init__ = unfenced  # type: ignore[method-assign, assignment]
    Worker._lost = lambda *_: None  # type: ignore[method-assign]


class _Unfenced:
    def __init__(self, mailbox: Mailbox, plan: Plan) -> None:
        self._mailbox = mailbox
        self._tables = tables_of(plan.url, plan.schema)

    async def settle(self, settlements: Sequence[Settlement], owner: str) -> Settled:
        epochs, holders = self._tables.epochs(), self._tables.holders()
        for each in settlements:
            theirs = holders.get(each.claim.id, owner)
            await self._mailbox.settle([_moved(each, epochs)], theirs)
        return Settled()


def _moved(settlement: Settlement, epochs: dict[int, int]) -> Settlement:
    id, epoch, message_id = settlement.claim
    return settlement._replace(claim=Claim(id, epochs.get(id, epoch), message_id))
