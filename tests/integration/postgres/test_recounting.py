"""Two that recount one join at once: what the first has counted, the second does not count again."""

import asyncio
from datetime import datetime
from uuid import UUID, uuid4

from mainspring.model.join import Join, JoinOutcome, Recount, outcome
from mainspring.model.schedule import Due
from mainspring.model.verdict import DONE, Settlement
from mainspring.storage.postgres import PostgresStorage
from mainspring.storage.postgres.dialect import Names
from tests.integration.postgres.acting import Connection, blocked, claim, draft

GATE = 4711
"""An advisory lock: who recounts slowly waits for it after it has seen, and before it writes."""
_SEEN = "WHERE page.pending - noted.size > live.size"
_WAITING = f"{_SEEN} AND (SELECT pg_advisory_xact_lock({GATE}))::text IS NOT NULL"


async def open_join_with_members_gone(storage: PostgresStorage, connection: Connection, schema: str) -> UUID:
    """Of its four members two have gone without a note."""
    id = uuid4()
    members = [draft(group="mail") for _ in range(4)]
    await storage.mailbox.join(Join(id, draft("all.done", id=id, group="boss")), members)
    gone = [each.id for each in members[:2]]
    await connection.execute(f"DELETE FROM {schema}.delivery WHERE message_id = ANY ($1)", gone)
    return id


async def recount_slowly(connection: Connection, schema: str, id: UUID) -> int:
    text = Names(schema).sql("joint_recount")
    assert _SEEN in text, "the statement is not what it was"
    counted = await connection.fetchval(text.replace(_SEEN, _WAITING), [id], "bell")
    assert isinstance(counted, int)
    return counted


def _leave(_due: Due, _now: datetime) -> None:
    """There are no schedules."""


async def test_who_saw_before_another_recounted_writes_nothing(
    storage: PostgresStorage, connection: Connection, another: Connection, postgres_schema: str
) -> None:
    id = await open_join_with_members_gone(storage, connection, postgres_schema)
    await connection.execute("SELECT pg_advisory_lock($1)", GATE)
    slow = asyncio.create_task(recount_slowly(another, postgres_schema, id))
    await blocked(connection)

    quick = await storage.upkeep.recount(None, 10)
    await connection.execute("SELECT pg_advisory_unlock($1)", GATE)

    assert (quick, await slow) == (Recount(2), 0)
    view = await storage.ledger.find_join(id)
    assert view is not None
    assert (view.members, view.ended) == (4, 2)


async def test_a_join_that_another_recounts_is_left_to_it(
    storage: PostgresStorage, connection: Connection, another: Connection, postgres_schema: str
) -> None:
    id = await open_join_with_members_gone(storage, connection, postgres_schema)
    transaction = another.transaction()
    await transaction.start()
    first = await another.fetchval(Names(postgres_schema).sql("joint_recount"), [id], "bell")

    second = await storage.upkeep.recount(None, 10)
    await transaction.commit()

    assert (first, second) == (2, Recount())
    assert (await storage.upkeep.recount(None, 10)).unnoted == 0


async def test_members_that_end_meanwhile_are_counted_too(
    storage: PostgresStorage, connection: Connection, another: Connection, postgres_schema: str
) -> None:
    id = await open_join_with_members_gone(storage, connection, postgres_schema)
    await connection.execute("SELECT pg_advisory_lock($1)", GATE)
    slow = asyncio.create_task(recount_slowly(another, postgres_schema, id))
    await blocked(connection)

    held = await claim(storage)
    await storage.mailbox.settle([Settlement(each.claim, DONE, member=True) for each in held], "node")
    await connection.execute("SELECT pg_advisory_unlock($1)", GATE)

    assert await slow == 2
    assert (await storage.timetable.tick("shop", _leave, 100)).joined == 1
    (delivery,) = await claim(storage, group="boss")
    assert outcome(delivery) == JoinOutcome(id, done=4, failed=0)
