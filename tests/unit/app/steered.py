"""Deliveries and dead letters to search and to steer."""

from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

from mainspring import Mainspring
from mainspring.model.message import ALL_LEVELS, ClaimRequest, Draft
from mainspring.model.verdict import Bury, Failure, Settlement
from mainspring.storage.contract import Storage

HOLD = timedelta(seconds=30)


async def storage_of(app: Mainspring) -> Storage:
    return await app._connection.storage("the test")


async def publish(app: Mainspring, count: int, group: str = "receipts", **options: Any) -> list[UUID]:
    drafts = [Draft(uuid4(), "a", b'{"n":1}', group=group, **options) for _ in range(count)]
    await (await storage_of(app)).mailbox.publish(drafts)
    return [draft.id for draft in drafts]


async def bury(app: Mainspring, count: int, group: str = "receipts", error: str = "broken") -> list[UUID]:
    storage = await storage_of(app)
    ids = await publish(app, count, group)
    await bury_due(storage, group, error)
    return ids


async def bury_due(storage: Storage, group: str, error: str) -> None:
    held = await storage.mailbox.claim([ClaimRequest(group, 10_000, ALL_LEVELS)], "worker", HOLD)
    await storage.mailbox.settle([Settlement(each.claim, Bury(Failure("error", error))) for each in held], "worker")


async def audited(app: Mainspring) -> list[tuple[str, str, str, str]]:
    return [(each.by, each.action, each.subject, each.detail) for each in await app.audit()]
