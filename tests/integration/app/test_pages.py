"""Every listing call returns pages: following the cursors gives each row once."""

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import timedelta
from typing import Any

import pytest

from mainspring import Mainspring, Page
from mainspring.model.errors import BadOption
from mainspring.model.fanout import EVERYTHING, Batch, Candidate, FanoutPolicy, Planning
from mainspring.model.inbox import InboxKey
from mainspring.model.lease import Hold
from mainspring.model.schedule import Note
from mainspring.model.verdict import DONE, Bury, Retry
from mainspring.storage.contract import Storage
from tests.contract.acting import DAY, HOUR, NOON, claim, draft, failure, publish, settle, turn

COUNT = 5
ROOMS = ("", "messages", "dead", "groups", "workers", "joins", "schedules", "fanouts", "inbox", "leases")
NO_PAGES = {
    "messages.chain": "what caused a message and what it caused: two lists",
    "groups.release": "the number of claims to release",
    "dead.causes": "counted causes, the most frequent first: no order to continue in",
    "schedules.recent": "a few runs of every schedule; schedules.runs() has the pages",
    "schedules.run_times": "one result, of the latest runs",
    "testing": "the kit: its limit is of runs",
}


async def members(app: Mainspring, **page: Any) -> Page[Any]:
    (join,) = await app.joins.list(limit=1)
    return await app.joins.members(join.id, **page)


Call = Callable[..., Any]
CALLS: dict[str, Call] = {
    "messages.list": lambda app, **page: app.messages.list(group="ship", **page),
    "messages.list dead": lambda app, **page: app.messages.list("dead", **page),
    "messages.list done": lambda app, **page: app.messages.list("done", **page),
    "messages.list parked": lambda app, **page: app.messages.list("parked", **page),
    "messages.search": lambda app, **page: app.messages.search(text="order", group="ship", **page),
    "messages.runs": lambda app, **page: app.messages.runs(**page),
    "messages.runs of a group": lambda app, **page: app.messages.runs("clean", **page),
    "messages.failures": lambda app, **page: app.messages.failures(**page),
    "dead.list": lambda app, **page: app.dead.list(**page),
    "joins.list": lambda app, **page: app.joins.list(**page),
    "joins.members": members,
    "schedules.runs": lambda app, **page: app.schedules.runs("nightly", **page),
    "inbox.list": lambda app, **page: app.inbox.list(**page),
    "inbox.list of an id": lambda app, **page: app.inbox.list(message_id="evt", **page),
    "leases.list": lambda app, **page: app.leases.list(**page),
    "fanouts.cursors": lambda app, **page: app.fanouts.cursors("etl", "payments", **page),
    "fanouts.policies": lambda app, **page: app.fanouts.policies("etl", "payments", **page),
    "audit": lambda app, **page: app.audit(**page),
}


async def fill(url: str, schema: str | None = None) -> None:
    """Store rows for every call, all of one instant: no order can rely on time alone."""
    app = Mainspring(url, name="shop", schema=schema, auto_migrate=True)

    @app.consumer("orders")
    def ship(order: Any) -> None: ...

    @app.consumer("cleaning")
    def clean(order: Any) -> None: ...

    async with app:
        await app.declare()
        storage = await app._connection.storage("the test")
        turn(storage, timedelta())
        for number in range(COUNT):
            await app.publish("nowhere", number)
            await app.note("deploy", str(number), by="ann")
            await app.join([(ship, f"order {each}") for each in range(COUNT)], then=ship)
            for verdict in (DONE, Retry(DAY, failure()), Bury(failure())):
                await publish(storage, draft("cleaning", group="clean", schedule="nightly"))
                (held,) = await claim(storage, "clean")
                await settle(storage, held, verdict, keep="all")
        await _fill_coordination(storage)


async def _fill_coordination(storage: Storage) -> None:
    for number in range(COUNT):
        await storage.inbox.admit(InboxKey("shop", f"source-{number}", "evt"), None, "processing", None)
        await storage.inbox.admit(InboxKey(f"group-{number}", "stripe", f"evt_{number}"), None, "done", None)
        await storage.leases.acquire(f"lease-{number}", "ann", HOUR)
        shard = f"shard-{number}" if number else EVERYTHING
        await storage.fanouts.edit("etl", "payments", shard, FanoutPolicy(enabled=True), Note("ann", "fanout edit"))
    granted = await storage.leases.acquire("planning", "ann", HOUR)
    assert granted is not None
    shards = [("payments", f"shard-{number}") for number in range(COUNT)]
    await storage.fanouts.plan(Batch("etl", NOON, shards, Hold("planning", granted.epoch, "ann")), _all)


def _all(candidates: Sequence[Candidate]) -> list[Planning]:
    return [Planning(each.work, each.shard, draft("slices")) for each in candidates]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    url = f"sqlite:///{tmp_path_factory.mktemp('pages')}/shop.db"
    asyncio.run(fill(url))
    return url


@pytest.fixture
async def app(url: str) -> AsyncIterator[Mainspring]:
    async with Mainspring(url, name="shop") as app:
        yield app


async def _check_walk(app: Mainspring, call: Call, limit: int) -> None:
    whole = await call(app, limit=1000)
    assert len(whole) >= COUNT
    assert whole.cursor is None

    walked: list[Any] = []
    cursor: str | None = None
    while True:
        page = await call(app, cursor=cursor, limit=limit)
        assert isinstance(page, Page)
        assert 1 <= len(page) <= limit
        walked += page
        if page.cursor is None:
            break
        cursor = page.cursor

    assert walked == whole


@pytest.mark.parametrize("limit", [1, 2, COUNT])
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
async def test_following_the_cursors_gives_every_row_once(app: Mainspring, call: Call, limit: int) -> None:
    await _check_walk(app, call, limit)


async def test_so_it_does_on_postgresql(postgres_url: str, postgres_schema: str) -> None:
    await fill(postgres_url, postgres_schema)
    async with Mainspring(postgres_url, name="shop", schema=postgres_schema) as app:
        for call in CALLS.values():
            await _check_walk(app, call, 2)


def test_no_call_with_a_limit_is_without_pages() -> None:
    app = Mainspring("memory://")
    limited: set[str] = set()
    for room in ROOMS:
        for name, method in inspect.getmembers(getattr(app, room) if room else app, inspect.ismethod):
            parameters = inspect.signature(method).parameters
            if name.startswith("_") or "limit" not in parameters:
                continue
            limited.add(called := f"{room}.{name}" if room else name)
            if called not in NO_PAGES:
                assert (parameters["cursor"].default, parameters["limit"].default) == (None, 50), called

    assert limited == {name.partition(" ")[0] for name in CALLS} | NO_PAGES.keys()


async def test_a_cursor_is_of_one_call(app: Mainspring) -> None:
    cursors = {name: (await call(app, limit=1)).cursor for name, call in CALLS.items()}
    for name, call in CALLS.items():
        own = name.partition(" ")[0]
        foreign = [cursor for other, cursor in cursors.items() if other.partition(" ")[0] != own]
        for cursor in (*foreign, "", "cursor", "=", "\x00", "é", cursors[name][:-2], 17, NOON):
            with pytest.raises(BadOption) as raised:
                await call(app, cursor=cursor)
            assert str(raised.value) == (
                f"cursor={cursor!r} is not a cursor of app.{own}(): pass .cursor of a page that this call returned, "
                "or leave it out for the first page"
            )


@pytest.mark.parametrize("limit", [0, 10_001, "5", True])
async def test_a_page_has_a_row_and_not_too_many(app: Mainspring, limit: Any) -> None:
    for call in CALLS.values():
        with pytest.raises(BadOption, match=f"limit={limit!r} must be a whole number from 1 to 10,000"):
            await call(app, limit=limit)


@pytest.mark.parametrize("former", ["before", "after"])
async def test_a_former_option_names_the_cursor(app: Mainspring, former: str) -> None:
    for name, call in CALLS.items():
        if name != "messages.failures":  # it never had one
            with pytest.raises(TypeError, match=rf"\w\(\) has no option '{former}' any more: pass cursor=page.cursor"):
                await call(app, **{former: 17})


def test_a_blocking_call_has_the_same_pages_and_the_same_errors(url: str) -> None:
    leases: Any = Mainspring(url, name="shop").sync.leases

    first = leases.list(limit=2)
    second = leases.list(cursor=first.cursor, limit=2)

    assert [each.name for each in (*first, *second)] == [f"lease-{number}" for number in range(4)]
    with pytest.raises(TypeError, match=r"pass cursor=page\.cursor"):
        leases.list(after="lease-1")
