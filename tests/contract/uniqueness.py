"""What the tests of uniqueness do over and over."""

from uuid import UUID

from mainspring.model.message import Draft, Keeps, Receipt, Scope, UniqueKey
from mainspring.storage.contract import Storage
from tests.contract.acting import draft

ONE, OTHER = b"one" * 10, b"\x00\xff"


async def publish(
    storage: Storage, one: Draft | None = None, scope: Scope = "running", keep: Keeps = "first", hash: bytes = ONE
) -> Receipt:
    return await storage.mailbox.publish_unique(one or draft(group="mailer"), UniqueKey(hash, scope, keep))


async def stored(
    storage: Storage, one: Draft | None = None, scope: Scope = "running", keep: Keeps = "first", hash: bytes = ONE
) -> UUID:
    receipt = await publish(storage, one, scope, keep, hash)
    assert receipt.status == "stored"
    return receipt.id
