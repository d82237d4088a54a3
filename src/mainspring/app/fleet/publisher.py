"""Publishing and cancelling in a fleet: in the database that a call means, and once more where that has moved."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar
from uuid import UUID

from mainspring.app.batcher import BATCH
from mainspring.app.fleet.forward import store_for
from mainspring.app.fleet.member import Member
from mainspring.app.fleet.router import Router, Target, naming
from mainspring.app.message.envelope import MISSING, PublishOptions
from mainspring.model.errors import DatabaseMoved
from mainspring.model.message import Cancelled, Receipt
from mainspring.timing.duration import Duration

T = TypeVar("T")


class FleetPublisher:
    """See ``Fleet.publish``, ``Fleet.publish_many`` and ``Fleet.cancel``."""

    def __init__(self, router: Router, member: Callable[[str], Member], refresh: Callable[[], Awaitable[None]]) -> None:
        self._router = router
        self._member = member
        self._refresh = refresh

    async def publish(self, message: object, payload: object, database: str | None, options: PublishOptions) -> Receipt:
        """Publish one message."""
        tx = options.get("tx")

        def choose() -> Target:
            return self._router.target("fleet.publish()", database, tx, message, payload, options)

        async def store(target: Target) -> Receipt:
            member, across = target
            if across is None:
                return await member.app.publish(message, payload, **options)
            draft = member.place.front.publisher.draft(message, payload, options, "fleet.publish(…)")
            return (await store_for(across, member, [draft], options))[0]

        return await self._there(choose, store, again=tx is None)

    async def publish_many(
        self, messages: Iterable[object], database: str | None, spread: Duration | None, options: PublishOptions
    ) -> list[Receipt]:
        """Route all, then store the messages of each database; receipts in the order of the messages."""
        tx = options.get("tx")
        parts: dict[Target, list[tuple[int, object]]] = {}
        for place, each in enumerate(messages):
            message, payload = each if type(each) is tuple and len(each) == 2 else (each, MISSING)  # noqa: PLR2004
            target = self._router.target("fleet.publish_many()", database, tx, message, payload, options)
            parts.setdefault(target, []).append((place, each))
        receipts: dict[int, Receipt] = {}
        for target, part in parts.items():
            chosen = [each for _, each in part]

            def choose(target: Target = target) -> Target:
                return target._replace(member=self._member(target.member.name))

            async def store(target: Target, chosen: list[object] = chosen) -> list[Receipt]:
                member, across = target
                if across is None:
                    return await member.app.publish_many(chosen, spread=spread, **options)
                drafts = member.place.front.publisher.drafts(chosen, spread, options)
                return list(await store_for(across, member, drafts, options))

            again = tx is None and len(chosen) <= BATCH  # of more, some may be stored
            stored = await self._there(choose, store, again=again)
            receipts.update(zip((place for place, _ in part), stored, strict=True))
        return [receipts[place] for place in sorted(receipts)]

    async def cancel(
        self, which: UUID | str | Receipt | type, key: str | None, reason: str, database: str | None, tx: Any
    ) -> Cancelled:
        """Cancel by id, or by topic and key."""

        def choose() -> Target:
            return Target(self._router.member_of_key("fleet.cancel()", database, tx, which, key))

        async def cancel(target: Target) -> Cancelled:
            return await target.member.app.cancel(which, key=key, reason=reason, tx=tx)

        return await self._there(choose, cancel, again=tx is None)

    async def _there(self, choose: Callable[[], Target], work: Callable[[Target], Awaitable[T]], *, again: bool) -> T:
        """Do the work; ``again``, in the new place, if its database has moved."""
        target = choose()
        try:
            with naming(target.member):
                return await work(target)
        except DatabaseMoved:
            if not again:
                raise
            await self._refresh()
            if (found := choose()).member is target.member:
                raise
        with naming(found.member):
            return await work(found)
