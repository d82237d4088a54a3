"""A day has 24 hours, also in a session whose zone changes its clocks: a caller's own, or one behind a pooler."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import asyncpg
import pytest

from mainspring.model.message import Draft
from mainspring.model.verdict import Settlement, Snooze
from mainspring.storage.enlisted.asyncpg import EnlistedAsyncpg
from mainspring.storage.operation import HandSet
from mainspring.storage.postgres import PostgresStorage
from mainspring.storage.script import run_async
from tests.integration.postgres.acting import TOPIC, claim, declare

BEFORE = datetime(2026, 3, 28, 12, tzinfo=UTC)
DAY = timedelta(days=1)


def draft() -> Draft:
    return Draft(uuid4(), TOPIC, b"{}", "application/json", delay=DAY, expires_in=2 * DAY)


@pytest.mark.parametrize("count", [1, 3], ids=["one", "many"])
async def test_a_delay_in_the_callers_transaction(
    make: Callable[[], PostgresStorage], postgres_url: str, count: int
) -> None:
    storage = make()
    await storage.schema.migrate()
    await declare(storage)
    caller = await asyncpg.connect(postgres_url, server_settings={"timezone": "Europe/Berlin"})
    try:
        async with caller.transaction():
            drafts = [draft() for _ in range(count)]
            await run_async(
                EnlistedAsyncpg(caller), storage.enlisted(clock=HandSet(BEFORE)).mailbox.publish.script(drafts)
            )
        stored = await storage.ledger.find(drafts[0].id)
    finally:
        await caller.close()

    assert stored is not None
    assert [each.due_at for each in stored.deliveries] == [BEFORE + DAY]
    assert stored.expires_at == BEFORE + 2 * DAY


async def test_a_snooze_settled_in_such_a_session(make: Callable[[], PostgresStorage], postgres_url: str) -> None:
    storage = make()
    await storage.schema.migrate()
    await declare(storage)
    storage.now = BEFORE
    message = Draft(uuid4(), TOPIC, b"{}", "application/json")
    await storage.mailbox.publish([message])
    [delivery] = await claim(storage)
    session = await asyncpg.connect(postgres_url, server_settings={"timezone": "Europe/Berlin"})
    try:
        settlements = [Settlement(delivery.claim, Snooze(DAY))]
        await run_async(
            EnlistedAsyncpg(session), storage.enlisted(clock=HandSet(BEFORE)).mailbox.settle.script(settlements, "node")
        )
        stored = await storage.ledger.find(message.id)
    finally:
        await session.close()

    assert stored is not None
    assert [each.due_at for each in stored.deliveries] == [BEFORE + DAY]
