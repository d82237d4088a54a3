"""``app.joins``: open joins, to inspect and cancel."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from mainspring.app.admin.bulk import BATCH
from mainspring.app.admin.search import Deliveries, DeliveryPages
from mainspring.app.blocking import Face, blocking
from mainspring.app.connection import Connection
from mainspring.app.message.envelope import read_identity
from mainspring.app.page import Page, Paging, Seq, listing
from mainspring.app.publisher import REASON
from mainspring.model.errors import BadOption
from mainspring.model.join import JOIN_HEADER, MEMBER_HEADER, JoinReceipt, JoinView, follower_id
from mainspring.model.message import Cancelled
from mainspring.storage.contract import Storage

Which = UUID | str | JoinReceipt
"""A join: its id, or the receipt it was opened with."""

# Defined here: inside the class ``list`` is a method.
JoinViews = Page[JoinView]

_PAGES: Paging[JoinView, UUID] = Paging("app.joins.list()", lambda join: join.id, UUID)
_MEMBERS: DeliveryPages = Paging("app.joins.members()", lambda member: member.seq, Seq)


class Joins:
    """The open joins. One is open until all of its members have ended and its follow-up is published."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @listing
    async def list(self, *, cursor: str | None = None, limit: int = 50) -> JoinViews:
        """Return the open joins, oldest first."""
        after = _PAGES.start(cursor, limit)
        ledger = (await self._connection.storage("app.joins.list()")).ledger
        return _PAGES.page(await ledger.joins(after, limit + 1), limit)

    async def get(self, join: Which) -> JoinView | None:
        """Return one open join; None if there is none."""
        return await (await self._connection.storage("app.joins.get()")).ledger.find_join(_identity(join))

    @listing
    async def members(self, join: Which, *, cursor: str | None = None, limit: int = 50) -> Deliveries:
        """Return its members that have not ended, in the order they were published."""
        after = _MEMBERS.start(cursor, limit)
        storage, id = await self._open(join, "members")
        return _MEMBERS.page(await storage.ledger.members(id, after, limit + 1), limit)

    async def cancel(self, join: Which, *, by: str = "app", reason: str = REASON) -> Cancelled:
        """Cancel its members that have not ended, each by itself; when all have, ``failed`` follows as always.

        Audited with ``by``.
        """
        storage, id = await self._open(join, "cancel")
        # Before it is cancelled: an action may be audited and then fail, and never runs unaudited.
        await storage.controls.note("cancel", f"join {id}", by, reason)
        cancelled = asked = 0
        after: int | None = None
        while page := await storage.ledger.members(id, after, BATCH):
            for each in page:
                done = await storage.mailbox.cancel(each.message_id, reason)
                cancelled, asked = cancelled + done.cancelled, asked + done.asked
            after = page[-1].seq
        return Cancelled(cancelled, asked)

    async def _open(self, join: Which, call: str) -> tuple[Storage, UUID]:
        """Return the database and the id of an open join. Raises BadOption."""
        storage, id = await self._connection.storage(f"app.joins.{call}()"), _identity(join)
        if await storage.ledger.find_join(id) is None:
            raise await _unknown(storage, id)
        return storage, id


async def _unknown(storage: Storage, id: UUID) -> BadOption:
    follows = follower_id(id)
    if await storage.ledger.find(follows) is not None:
        return BadOption(f"the join {id} is over: what followed is the message {follows}")
    message = await storage.ledger.find(id)
    if message is None:
        return BadOption(f"there is no open join {id}: it never was, or is over")
    if (over := message.headers.get(JOIN_HEADER)) is not None:
        return BadOption(f"the join {over} is over: what followed is the message {id}")
    if (whose := message.headers.get(MEMBER_HEADER)) is not None:
        return BadOption(f"{id} is no join, but a member of the join {whose}: give that id")
    return BadOption(f"{id} is no join, but a message on the topic {message.topic}")


def _identity(join: Which) -> UUID:
    if isinstance(join, JoinReceipt):
        return join.id
    try:
        return read_identity(join)
    except BadOption:
        raise BadOption(f"{join!r} is no id of a join: pass what app.join(…) answered, or its id") from None


class SyncJoins(Face[Joins]):
    """``app.sync.joins``: as ``app.joins``, without await."""

    list: Final = blocking(Joins.list)
    get: Final = blocking(Joins.get)
    members: Final = blocking(Joins.members)
    cancel: Final = blocking(Joins.cancel)
