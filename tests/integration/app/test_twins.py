"""Blocking twins are derived: every call that is awaited has its line, and both give the same answer."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from mainspring import Context, Filter, Mainspring
from mainspring.app.admin.dead_letters import DeadLetters, SyncDeadLetters
from mainspring.app.admin.groups import Groups, SyncGroups
from mainspring.app.admin.joins import Joins, SyncJoins
from mainspring.app.admin.messages import Messages, SyncMessages
from mainspring.app.admin.workers import SyncWorkers, Workers
from mainspring.app.blocking import Face
from mainspring.app.consume.consumer import ClassSender, Consumed, SyncClassSender, SyncConsumed
from mainspring.app.consume.context import SyncContext
from mainspring.app.fanout.fanouts import Fanouts, SyncFanouts
from mainspring.app.inbox import Inbox, SyncInbox
from mainspring.app.lease.leases import Leases, SyncLeases
from mainspring.app.observe.health import AppHealth, SyncHealth
from mainspring.app.observe.stats import Stats, SyncStats
from mainspring.app.queue.queue import Queue, SyncQueue
from mainspring.app.schedule.schedules import Schedules, SyncSchedules
from mainspring.app.sync import Sync

TWINS: list[tuple[type, type[Face[Any]]]] = [
    (Mainspring, Sync),
    (Messages, SyncMessages),
    (DeadLetters, SyncDeadLetters),
    (Groups, SyncGroups),
    (Stats, SyncStats),
    (AppHealth, SyncHealth),
    (Workers, SyncWorkers),
    (Joins, SyncJoins),
    (Schedules, SyncSchedules),
    (Fanouts, SyncFanouts),
    (Inbox, SyncInbox),
    (Leases, SyncLeases),
    (Queue, SyncQueue),
    (Consumed, SyncConsumed),
    (ClassSender, SyncClassSender),
    (Context, SyncContext),
]
# A block, or what guards one, cannot be derived from a coroutine.
WRITTEN: dict[type, set[str]] = {Leases: {"acquire"}}
LATER = datetime(2031, 5, 1, 12, tzinfo=UTC)
NOWHERE = UUID(int=7)


@pytest.mark.parametrize(("awaited", "blocking"), TWINS, ids=lambda each: each.__name__)
def test_every_call_that_is_awaited_has_a_derived_twin(awaited: type, blocking: type) -> None:
    methods = dict(inspect.getmembers(awaited, inspect.iscoroutinefunction))
    public = {name for name in methods if not name.startswith("_")}

    derived = {name for name in vars(blocking) if hasattr(getattr(blocking, name), "__wrapped__")}

    assert public - derived == WRITTEN.get(awaited, set())
    for name in public & derived:
        twin = getattr(blocking, name)
        assert twin.__wrapped__ is methods[name], name
        assert inspect.signature(twin) == inspect.signature(methods[name])
        assert twin.__doc__ == methods[name].__doc__


# What each call does, on either side: `app` awaits, `app.sync` blocks. The answers are compared, call by call.
Call = Callable[[Any], Any]
CALLS: dict[str, Call] = {
    "migrate": lambda app: app.migrate(),
    "declare": lambda app: app.declare(),
    "stats.tally": lambda app: app.stats.tally(),
    "audit": lambda app: app.audit(),
    "note": lambda app: app.note("deploy", "shop", by="ann"),
    "stats.roster": lambda app: app.stats.roster(),
    "stats.measures": lambda app: app.stats.measures("15m"),
    "stats.rates": lambda app: app.stats.rates(),
    "prune": lambda app: app.prune(),
    "publish": lambda app: app.publish("orders.placed", {"id": 1}),
    "publish_many": lambda app: app.publish_many([("orders.placed", {"id": 1}), ("orders.placed", {"id": 2})]),
    "publish of nothing": lambda app: app.publish("orders placed", {}),
    "cancel": lambda app: app.cancel("orders.placed", key="order:1"),
    "cancel of no id": lambda app: app.cancel("not an id"),
    "messages.list": lambda app: app.messages.list(),
    "messages.search": lambda app: app.messages.search(topic="orders.placed"),
    "messages.apply": lambda app: app.messages.apply("cancel", Filter("live", topic="orders.placed")),
    "messages.get": lambda app: app.messages.get(NOWHERE),
    "messages.chain": lambda app: app.messages.chain(NOWHERE),
    "messages.runs": lambda app: app.messages.runs(),
    "messages.failures": lambda app: app.messages.failures(),
    "dead.list": lambda app: app.dead.list(),
    "dead.causes": lambda app: app.dead.causes(),
    "dead.revive of nothing": lambda app: app.dead.revive(),
    "groups.list": lambda app: app.groups.list(),
    "groups.pause": lambda app: app.groups.pause("ship", by="ann", reason="flood"),
    "groups.resume": lambda app: app.groups.resume("ship"),
    "groups.release": lambda app: app.groups.release("ship", limit=10),
    "groups.release of none": lambda app: app.groups.release("shp"),
    "groups.pause of none": lambda app: app.groups.pause("shp"),
    "workers.list": lambda app: app.workers.list(),
    "workers.drain of none": lambda app: app.workers.drain("nobody-here"),
    "joins.list": lambda app: app.joins.list(),
    "joins.get": lambda app: app.joins.get(NOWHERE),
    "joins.cancel of none": lambda app: app.joins.cancel(NOWHERE),
    "schedules.list": lambda app: app.schedules.list(),
    "schedules.get": lambda app: app.schedules.get("nightly"),
    "schedules.pause": lambda app: app.schedules.pause("nightly", reason="audit", by="ann"),
    "schedules.resume": lambda app: app.schedules.resume("nightly"),
    "schedules.alter": lambda app: app.schedules.alter("nightly", "0 3 * * *"),
    "schedules.trigger": lambda app: app.schedules.trigger("nightly"),
    "schedules.runs": lambda app: app.schedules.runs("nightly"),
    "schedules.next": lambda app: app.schedules.next("nightly", 3),
    "schedules.between": lambda app: app.schedules.between("nightly", LATER, LATER + timedelta(days=2)),
    "schedules.pause of none": lambda app: app.schedules.pause("nightli"),
    "schedules.freeze": lambda app: app.schedules.freeze(reason="move"),
    "schedules.thaw": lambda app: app.schedules.thaw(),
    "inbox.list": lambda app: app.inbox.list(),
    "inbox.get": lambda app: app.inbox.get("42", "billing"),
    "inbox.admit without a source": lambda app: app.inbox.admit("42", ""),
    "inbox.release": lambda app: app.inbox.release("42", "billing"),
    "leases.list": lambda app: app.leases.list(),
    "leases.get": lambda app: app.leases.get("reports"),
    "leases.release": lambda app: app.leases.release("reports"),
    "fanouts.list": lambda app: app.fanouts.list(),
    "fanouts.get of none": lambda app: app.fanouts.get("sweep"),
}


@pytest.fixture
def app(tmp_path: Path) -> Mainspring:
    app = Mainspring(f"sqlite:///{tmp_path}/shop.db", auto_migrate=True, name="shop")

    @app.consumer("orders.placed")
    def ship(order: dict[str, Any]) -> None: ...

    @app.recurring("0 4 * * *", name="nightly")
    def clean() -> None: ...

    return app


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_both_give_the_same_answer(app: Mainspring, call: Call) -> None:
    app.sync.migrate()
    app.sync.declare()
    app.sync.publish("orders.placed", {"id": 0}, key="order:0")

    async def awaited() -> object:
        async with app:
            return await answer_of(lambda: call(app))

    try:
        told = asyncio.run(awaited())
        blocked = asyncio.run(answer_of(lambda: asyncio.to_thread(call, app.sync)))
    finally:
        app.sync.close()

    assert plain(blocked) == plain(told)


async def answer_of(work: Callable[[], Awaitable[object]]) -> object:
    try:
        return await work()
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def plain(answer: Any) -> Any:
    """The answer without what differs between two calls of anything: ids, instants, and how often it was done."""
    if is_dataclass(answer) and not isinstance(answer, type):
        return type(answer), {each.name: plain(getattr(answer, each.name)) for each in fields(answer)}
    if isinstance(answer, tuple | list):
        return type(answer), [plain(each) for each in answer]
    if isinstance(answer, dict):
        return {plain(key): plain(value) for key, value in answer.items()}
    return type(answer) if isinstance(answer, UUID | datetime | timedelta | int) else answer
