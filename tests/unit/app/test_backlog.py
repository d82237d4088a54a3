"""A limit on what may wait: how it is read, whom it concerns, and how rarely anybody looks."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterator, Mapping
from datetime import timedelta
from typing import Any

import pytest

from mainspring import Mainspring
from mainspring.app.consume.backpressure import Backlogs, PendingLimit
from mainspring.model.errors import Backlogged, BadOption, StorageUnavailable
from mainspring.model.message import Draft
from mainspring.storage.contract import Ledger
from mainspring.timing.clock import HandClock
from tests.unit.app.stage import NOON


class Looks:
    """A ledger that notes who is counted, and is away when told to be."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.asked: list[dict[str, int]] = []
        self.away = False

    async def pending(self, limits: Mapping[str, int]) -> dict[str, int]:
        self.asked.append(dict(limits))
        await asyncio.sleep(0)  # as a database does, let others come meanwhile
        if self.away:
            raise StorageUnavailable("nobody there")
        return await self._ledger.pending(limits)


@pytest.fixture
def clock() -> HandClock:
    return HandClock(NOON)


@pytest.fixture
async def app(clock: HandClock) -> AsyncIterator[Mainspring]:
    """An open app whose clock moves by hand, with a group for which three may wait, and one for any number."""
    app = Mainspring("memory://", namespace="test")
    app._code.clock.replace(clock)

    @app.consumer("orders.*", "news", group="mailer", pending_limit=3)
    async def mail(value: Any) -> None: ...

    @app.consumer("orders.placed", "orders.*")
    async def audit(value: Any) -> None: ...

    async with app:
        await app.declare()
        yield app


@pytest.fixture
async def looks(app: Mainspring) -> Looks:
    storage: Any = (await app._connection.opening("a test")).storage
    storage.ledger = looks = Looks(storage.ledger)
    return looks


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pending_limit": 0}, r"pending_limit=0 must be a whole number from 1 to 1,000,000"),
        ({"pending_limit": "10"}, r"pending_limit='10' must be a whole number"),
        ({"pending_limit": True}, r"pending_limit=True must be a whole number"),
        ({"pending_limit": 10, "when_full": "block"}, r"when_full='block' is not one of 'raise', 'wait'"),
        ({"pending_limit": 10, "when_full": "waits"}, r"Did you mean 'wait'\?"),
        ({"when_full": "wait"}, r"has when_full='wait' and no limit: add pending_limit=10_000, or drop it"),
        ({"pending_limits": 10}, r"Did you mean 'pending_limit'\?"),
    ],
)
def test_a_limit_that_cannot_be_meant_is_refused(options: Any, message: str) -> None:
    app = Mainspring("memory://")

    async def mail(value: Any) -> None: ...

    with pytest.raises(BadOption, match=message):
        app.consumer("a", **options)(mail)


def test_a_queue_takes_the_same_limit_and_must_name_its_topics() -> None:
    app = Mainspring("memory://")

    with pytest.raises(BadOption, match=r"app\.queue\('jobs'\) has when_full='wait' and no limit"):
        app.queue("jobs", "a", when_full="wait")
    with pytest.raises(BadOption, match=r"write app\.queue\('jobs', 'orders.placed', pending_limit=…\)"):
        app.sync.queue("jobs", pending_limit=10)
    app.queue("jobs", "a", pending_limit=10, when_full="wait")

    [declared] = app._code.consumers.queues.declarations
    shown = dict(declared.options)
    assert (shown["pending_limit"], shown["when_full"]) == ("10", "wait")


def test_a_group_declares_its_limit() -> None:
    app = Mainspring("memory://")

    @app.consumer("a", pending_limit=10)
    async def mail(value: Any) -> None: ...

    [registration] = app._code.consumers
    shown = dict(registration.declaration("shop").options)

    assert (shown["pending_limit"], shown["when_full"]) == ("10", "raise")


async def test_a_function_that_is_registered_again_has_the_limit_of_the_last_time() -> None:
    app = Mainspring("memory://")

    async def mail(value: Any) -> None: ...

    app.consumer("a", pending_limit=1)(mail)
    app.consumer("a")(mail)

    async with app:
        await app.declare()
        assert len(await app.publish_many([("a", 1), ("a", 2)])) == 2


async def test_who_waits_goes_on_when_the_limit_is_taken_away(app: Mainspring) -> None:
    async def index(value: Any) -> None: ...

    app.consumer("rows", pending_limit=1, when_full="wait")(index)
    await app.declare()
    await app.publish("rows", 1)
    waiting = asyncio.create_task(app.publish("rows", 2))
    await asyncio.sleep(0)  # it finds no room, and sleeps
    app.consumer("rows")(index)

    assert (await waiting).status == "stored"


async def test_a_queue_that_is_asked_for_again_is_not_counted_again(app: Mainspring, looks: Looks) -> None:
    for number in range(3):
        app.queue("jobs", "jobs", pending_limit=5)
        await app.publish("jobs", number)

    assert looks.asked == [{"jobs": 5}]


def test_a_topic_that_is_looked_up_while_a_limit_is_set_is_looked_up_again() -> None:
    backlogs = Backlogs()
    draft = Draft(uuid.uuid4(), "jobs", b"")

    class Late(tuple[str, ...]):
        """Patterns during whose reading somebody else registers a group for the same topic."""

        __slots__ = ()

        def __iter__(self) -> Iterator[str]:
            if not backlogs.limits.keys() & {"late"}:
                backlogs.note("late", ["jobs"], PendingLimit(1))
            return super().__iter__()

    backlogs.note("early", ["jobs"], PendingLimit(1))
    backlogs._patterns["early"] = Late(["jobs"])
    first = backlogs.wanted([draft])

    assert (first, backlogs.wanted([draft])) == ({"early": 1}, {"early": 1, "late": 1})


async def test_only_what_reaches_a_limited_group_is_counted(app: Mainspring, looks: Looks) -> None:
    await app.publish("news.daily", 1)
    await app.publish("elsewhere", 1)
    assert looks.asked == []

    await app.publish_many([("orders.placed", 1), ("elsewhere", 2), ("news", 3)])

    assert looks.asked == [{"mailer": 3}]
    await app.publish("orders.paid", 1)
    with pytest.raises(Backlogged, match=r"group 'mailer' has no room for one more: 3 wait, its pending_limit is 3\."):
        await app.publish("orders.paid", 1)


async def test_the_storage_is_asked_once_a_second_however_many_publish(
    app: Mainspring, looks: Looks, clock: HandClock
) -> None:
    answers = await asyncio.gather(*(app.publish("news", number) for number in range(10)), return_exceptions=True)
    first = len(looks.asked)
    clock.advance(timedelta(seconds=1))
    await asyncio.gather(*(app.publish("news", number) for number in range(10)), return_exceptions=True)
    second = len(looks.asked)
    clock.advance(timedelta(seconds=0.99))
    with pytest.raises(Backlogged):
        await app.publish("news", 1)

    assert [isinstance(each, Backlogged) for each in answers] == [False] * 3 + [True] * 7
    assert (first, second, len(looks.asked)) == (1, 2, 2)


async def test_a_group_that_is_full_by_a_guess_is_looked_at_sooner_than_one_that_was_counted(
    app: Mainspring, looks: Looks, clock: HandClock
) -> None:
    receipts = await app.publish_many([("news", number) for number in range(3)])
    for receipt in receipts:
        await app.cancel(receipt)
    clock.advance(timedelta(seconds=0.1))

    # Nothing waits any more: all of these wait for the one look, which says so.
    answers = await asyncio.gather(*(app.publish("news", number) for number in range(4)), return_exceptions=True)
    clock.advance(timedelta(seconds=0.1))
    answers += await asyncio.gather(*(app.publish("news", number) for number in range(2)), return_exceptions=True)
    clock.advance(timedelta(seconds=0.1))
    with pytest.raises(Backlogged):
        await app.publish("news", 1)

    assert [isinstance(each, Backlogged) for each in answers] == [False] * 3 + [True] * 3
    assert len(looks.asked) == 3


async def test_a_count_from_long_ago_is_not_gone_by(app: Mainspring, looks: Looks, clock: HandClock) -> None:
    receipts = await app.publish_many([("news", number) for number in range(3)])
    for receipt in receipts:
        await app.cancel(receipt)
    clock.advance(timedelta(minutes=5))

    # All of them wait for the one look.
    answers = await asyncio.gather(*(app.publish("news", number) for number in range(3)))

    assert (len(answers), len(looks.asked)) == (3, 2)


async def test_a_look_that_was_cancelled_is_made_by_the_next(app: Mainspring, looks: Looks) -> None:
    looking = asyncio.create_task(app.publish("news", 1))
    waiting = asyncio.create_task(app.publish("news", 2))
    while not looks.asked:
        await asyncio.sleep(0)
    looking.cancel()

    assert (await waiting).status == "stored"
    assert len(looks.asked) == 2


async def test_while_the_database_is_away_publishing_waits_for_it_and_the_limit_does_not_matter(
    app: Mainspring, looks: Looks
) -> None:
    looks.away = True

    # Storing has patience of its own, and tells if it is in vain. Here it is only the count that fails.
    assert (await app.publish("news", 1)).status == "stored"
    looks.away = False
    assert (await app.publish("news", 1)).status == "stored"


async def test_more_at_once_than_may_ever_wait_are_told_to_come_in_parts(app: Mainspring) -> None:
    with pytest.raises(Backlogged, match=r"4 messages at once .* which is 3\. .* Publish at most 3 at a time") as told:
        await app.publish_many([("news", number) for number in range(4)])

    assert (told.value.group, told.value.limit, told.value.pending) == ("mailer", 3, 0)
