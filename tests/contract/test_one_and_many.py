"""One message and several are stored by statements of their own: the same must come of both."""

from dataclasses import replace
from uuid import UUID, uuid4

import pytest

from mainspring.model.message import Draft, Priority
from mainspring.model.views import MessageView
from mainspring.storage.contract import Storage
from tests.contract.acting import HOUR, MINUTE, NOON, declare, draft, found, publish
from tests.contract.test_routing import ROUTES

pytestmark = pytest.mark.psycopg

DRAFTS = [
    draft(),
    draft("orders.unheard"),
    draft(group="mailer"),
    draft("orders.unheard", group="mailer", key="k"),
    draft(delay=HOUR, priority=Priority.URGENT, key="k"),
    draft(at=NOON - HOUR, expires_in=HOUR),
    draft(at=NOON + HOUR, delay=MINUTE, expires_at=NOON + 2 * HOUR, priority=Priority.LOW),
    draft(payload=b"\x00\xff", content_type="text/plain", headers={"b": "ä", "a": ""}),
    draft(correlation_id="größe", causation_id=UUID(int=7), headers={}),
]


def alike(view: MessageView) -> MessageView:
    """The view without what is every message's own."""
    deliveries = tuple(replace(each, seq=0, message_id=UUID(int=0)) for each in view.deliveries)
    return replace(view, id=UUID(int=0), deliveries=deliveries)


def again(message: Draft) -> Draft:
    return replace(message, id=uuid4())


@pytest.mark.parametrize("message", DRAFTS)
async def test_they_are_stored_alike(storage: Storage, message: Draft) -> None:
    await declare(storage, "mailer", "orders.placed", "orders.pl*")
    await declare(storage, "ledger", "orders.placed", "*.placed", "#.none")
    alone, first, second = again(message), again(message), again(message)

    stored = await publish(storage, alone) | await publish(storage, first, second)

    views = [alike(await found(storage, each.id)) for each in (alone, first, second)]
    assert stored == {alone.id, first.id, second.id}
    assert views[0] == views[1] == views[2]


@pytest.mark.parametrize(("pattern", "topic", "received"), ROUTES)
async def test_they_go_to_the_same_groups(storage: Storage, pattern: str, topic: str, received: bool) -> None:
    await declare(storage, "mailer", pattern)
    alone, first, second = draft(topic), draft(topic), draft(topic)

    await publish(storage, alone)
    await publish(storage, first, second)

    states = {(await found(storage, each.id)).deliveries[0].state for each in (alone, first, second)}
    assert states == {"ready" if received else "parked"}
