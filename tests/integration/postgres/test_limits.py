"""Claims under limits on PostgreSQL: whose turn it is and how it ends, what is locked, what others change just then."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Protocol, TypeVar

import pytest

from mainspring.model.limits import LimitedClaim, Limits, Rate
from mainspring.model.message import ALL_LEVELS, ClaimRequest, Delivery, Extended, Settled
from mainspring.model.verdict import DONE, Release, Retry, Settlement, Verdict
from mainspring.storage.enlisted.asyncpg import EnlistedAsyncpg
from mainspring.storage.postgres import PostgresStorage
from mainspring.storage.postgres.dialect import Names
from mainspring.storage.script import Row, Script, Statement, run_async
from tests.contract.acting import NOON, failure
from tests.integration.postgres.acting import Connection, claim, declare, draft, publish

WANT = ClaimRequest("mail", 10, ALL_LEVELS)
HOLD = timedelta(seconds=30)
MINUTE = timedelta(minutes=1)
RATED = Limits(rate=Rate(100, MINUTE))
T = TypeVar("T")


async def test_who_stands_still_during_its_turn_is_ended_by_the_server(
    storage: PostgresStorage, connection: Connection, postgres_schema: str
) -> None:
    await storage.mailbox.publish([draft(group="mail", key="k")])
    turn = Names(postgres_schema).sql("limited_turn")
    assert "'5000'" in turn
    stopped = connection.transaction()
    await stopped.start()
    await connection.fetch(turn.replace("'5000'", "'300'"), "mail")

    ration = await storage.mailbox.claim_limited(WANT, Limits(ordered=True), None, "node", HOLD)

    assert len(ration.deliveries) == 1
    assert connection.is_closed()


async def test_the_setting_that_ends_it_is_gone_with_the_turn(
    storage: PostgresStorage, connection: Connection, postgres_schema: str
) -> None:
    before = await connection.fetchval("SHOW idle_in_transaction_session_timeout")
    async with connection.transaction():
        await connection.fetch(Names(postgres_schema).sql("limited_turn"), "mail")
        during = await connection.fetchval("SHOW idle_in_transaction_session_timeout")

    assert during == "5s"
    assert await connection.fetchval("SHOW idle_in_transaction_session_timeout") == before


@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
async def test_in_a_snapshot_that_is_too_old_a_turn_fails_instead_of_counting_wrongly(
    storage: PostgresStorage, connection: Connection, postgres_schema: str, isolation: str
) -> None:
    # Behind a pooler nobody sets our isolation: a role may have been given another.
    turn = Names(postgres_schema).sql("limited_turn")
    await storage.mailbox.publish([draft(group="mail", key="k")])
    await storage.mailbox.claim_limited(WANT, Limits(ordered=True), None, "node", HOLD)
    await connection.execute(f"BEGIN ISOLATION LEVEL {isolation}")
    await connection.fetchval("SELECT 1 FROM pg_class LIMIT 1")  # the snapshot is taken here

    await storage.mailbox.claim_limited(WANT, Limits(ordered=True), None, "node", HOLD)

    with pytest.raises(Exception, match="could not serialize"):
        await connection.fetch(turn, "mail")
    await connection.execute("ROLLBACK")


class Lock(Protocol):
    """Has deliveries locked by a stranger while the block lasts: the first, in the order of their seq."""

    def __call__(self, first: int, key: str | None = None) -> AbstractAsyncContextManager[Sequence[int]]: ...


@pytest.fixture
def locked(another: Connection, postgres_schema: str) -> Lock:
    @asynccontextmanager
    async def lock(first: int, key: str | None = None) -> AsyncIterator[Sequence[int]]:
        query = f"""
            SELECT seq FROM {postgres_schema}.delivery WHERE coalesce(key = $2, true) ORDER BY seq LIMIT $1 FOR UPDATE
        """
        async with another.transaction():
            rows = await another.fetch(query, first, key)
            assert len(rows) == first
            yield [row[0] for row in rows]

    return lock


async def take(storage: PostgresStorage, limits: Limits, limit: int = 10) -> LimitedClaim:
    return await storage.mailbox.claim_limited(ClaimRequest("mail", limit, ALL_LEVELS), limits, None, "node", HOLD)


@pytest.mark.parametrize("limits", [Limits(rate=Rate(3, MINUTE)), Limits(key_rate=Rate(3, MINUTE))])
async def test_a_lapsed_claim_that_is_locked_keeps_no_other_from_being_taken_over(
    storage: PostgresStorage, locked: Lock, limits: Limits
) -> None:
    storage.now = NOON
    await declare(storage)
    await publish(storage, 20, key="k")
    old = await claim(storage)
    storage.now += 2 * HOLD

    async with locked(15):
        reaped = [await storage.mailbox.reap_limited("mail", limits, "another", HOLD) for _ in range(5)]

    found = [each for each in reaped if each is not None]
    # Those that were passed over count for nothing.
    assert [each.id for each in found] == sorted(each.id for each in old)[15:18]
    assert reaped[3:] == [None, None]


@pytest.mark.parametrize(
    ("limits", "limit", "taken"),
    [
        (Limits(global_concurrency=1), 10, 1),
        (Limits(global_concurrency=4), 10, 4),
        (Limits(rate=Rate(2, MINUTE)), 10, 2),
        (Limits(rate=Rate(5, MINUTE)), 1, 1),
        (Limits(key_concurrency=2), 1, 1),
        (Limits(key_concurrency=2), 10, 2),
        (Limits(key_rate=Rate(2, MINUTE)), 10, 2),
    ],
)
async def test_what_is_locked_takes_no_place_of_what_can_be_claimed(
    storage: PostgresStorage, locked: Lock, limits: Limits, limit: int, taken: int
) -> None:
    storage.now = NOON
    await publish(storage, 10, group="mail", key="k")

    async with locked(5) as seqs:
        ration = await take(storage, limits, limit)
        assert len(ration.deliveries) == taken
        assert [each.id for each in ration.deliveries] == [seqs[-1] + 1 + n for n in range(taken)]
        assert ration.left
        if taken < limit:
            assert (await take(storage, limits)).deliveries == []  # nor may more go than before

    after = await take(storage, limits)
    assert (after.deliveries == []) == (taken < limit)


async def test_a_rate_counts_only_what_was_taken(storage: PostgresStorage, locked: Lock) -> None:
    storage.now = NOON
    limits = Limits(rate=Rate(3, MINUTE), key_rate=Rate(2, MINUTE))
    await publish(storage, 2, group="mail", key="a")

    async with locked(2):
        assert (await take(storage, limits)).deliveries == []

    assert len((await take(storage, limits)).deliveries) == 2


@pytest.mark.parametrize("limits", [Limits(ordered=True), Limits(ordered=True, on_failure="skip")])
@pytest.mark.parametrize("global_concurrency", [None, 1])
async def test_while_the_first_of_a_key_is_locked_other_keys_go_and_its_second_does_not(
    storage: PostgresStorage, locked: Lock, limits: Limits, global_concurrency: int | None
) -> None:
    storage.now = NOON
    # More than one look has room for: what may go stands behind all of them.
    await publish(storage, 30, group="mail", key="a")
    await publish(storage, 2, group="mail", key="b")

    async with locked(1, "a"):
        first = await take(storage, replace(limits, global_concurrency=global_concurrency), 1)
        second = await take(storage, replace(limits, global_concurrency=global_concurrency), 1)

    assert ([each.key for each in first.deliveries], second.deliveries) == (["b"], [])
    freed = await take(storage, limits, 1)
    assert [each.key for each in freed.deliveries] == ["a"]


class Interrupted(EnlistedAsyncpg):
    """A turn in which others change what was chosen, just before it is taken."""

    def __init__(self, connection: Connection, schema: str, change: Callable[[], Awaitable[None]]) -> None:
        super().__init__(connection)
        self._connection = connection
        self._taking = Names(schema).sql("limited_hold")
        self._change = change
        self._has_changed = False

    async def execute(self, statement: Statement) -> Sequence[Row]:
        if statement.sql == self._taking and not self._has_changed:
            self._has_changed = True
            await self._change()
        return await super().execute(statement)

    async def run(self, script: Script[T]) -> T:
        async with self._connection.transaction():
            answer = await run_async(self, script)
        assert self._has_changed
        return answer


async def settle(storage: PostgresStorage, which: Delivery, verdict: Verdict) -> Settled:
    return await storage.mailbox.settle([Settlement(which.claim, verdict)], "node")


async def lapsed(storage: PostgresStorage) -> Delivery:
    storage.now = NOON
    await publish(storage, group="mail")
    (held,) = await claim(storage)
    storage.now += 2 * HOLD
    return held


async def test_a_claim_that_its_holder_has_just_extended_is_not_taken_over(
    storage: PostgresStorage, connection: Connection, postgres_schema: str
) -> None:
    held = await lapsed(storage)

    async def extend() -> None:
        assert await storage.mailbox.extend([held.claim], "node", HOLD) == Extended()

    turn = Interrupted(connection, postgres_schema, extend)
    reaped = await turn.run(storage.enlisted().mailbox.reap_limited.script("mail", RATED, "another", HOLD))

    assert reaped is None
    assert await settle(storage, held, DONE) == Settled()


async def test_what_its_holder_has_just_handed_back_is_no_suspect(
    storage: PostgresStorage, connection: Connection, postgres_schema: str
) -> None:
    held = await lapsed(storage)

    async def hand_back() -> None:
        assert await settle(storage, held, Release()) == Settled()

    turn = Interrupted(connection, postgres_schema, hand_back)
    reaped = await turn.run(storage.enlisted().mailbox.reap_limited.script("mail", RATED, "another", HOLD))

    assert reaped is None
    (again,) = await claim(storage)
    assert (again.suspect, again.attempt) == (False, 1)


async def test_what_another_has_just_claimed_is_not_taken_from_it(
    storage: PostgresStorage, connection: Connection, postgres_schema: str
) -> None:
    storage.now = NOON
    await publish(storage, group="mail", key="k")
    theirs: list[Delivery] = []

    async def claim_for_no_time() -> None:
        theirs.extend(await storage.mailbox.claim([WANT], "node", timedelta()))

    turn = Interrupted(connection, postgres_schema, claim_for_no_time)
    ration = await turn.run(storage.enlisted().mailbox.claim_limited.script(WANT, RATED, None, "another", HOLD))

    assert ration.deliveries == []
    assert await settle(storage, theirs[0], DONE) == Settled()


async def test_what_has_just_failed_at_anothers_is_not_taken_before_its_time(
    storage: PostgresStorage, connection: Connection, postgres_schema: str
) -> None:
    storage.now = NOON
    await publish(storage, group="mail", key="k")

    async def fail() -> None:
        for each in await claim(storage):
            await settle(storage, each, Retry(MINUTE, failure()))

    turn = Interrupted(connection, postgres_schema, fail)
    ration = await turn.run(storage.enlisted().mailbox.claim_limited.script(WANT, RATED, None, "another", HOLD))

    assert ration.deliveries == []
    storage.now += MINUTE
    assert [each.attempt for each in (await take(storage, RATED)).deliveries] == [2]


async def test_while_another_has_just_claimed_the_first_of_a_key_its_second_is_not_taken(
    storage: PostgresStorage, connection: Connection, postgres_schema: str
) -> None:
    storage.now = NOON
    one, ordered = ClaimRequest("mail", 1, ALL_LEVELS), Limits(ordered=True)
    # More than one look has room for: the key is looked up once more.
    await publish(storage, 30, group="mail", key="k")

    async def claim_the_first() -> None:
        assert len(await claim(storage, 1)) == 1

    turn = Interrupted(connection, postgres_schema, claim_the_first)
    ration = await turn.run(storage.enlisted().mailbox.claim_limited.script(one, ordered, None, "another", HOLD))

    assert (ration.deliveries, ration.left) == ([], True)
