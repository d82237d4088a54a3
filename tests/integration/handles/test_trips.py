"""What joining a transaction costs on the wire, listened to between the application and the server."""

import pytest

from tests.integration.handles import alchemists, djangos, drivers  # noqa: F401 - each enters its kinds
from tests.integration.handles.callers import KINDS, Kind
from tests.integration.handles.conftest import Shop
from tests.integration.handles.listening import wire_to

ON_POSTGRES = pytest.mark.parametrize("kind", [each for each in KINDS if each.database == "PostgreSQL"], ids=str)


@ON_POSTGRES
def test_a_publish_is_one_statement(kind: Kind, shop: Shop) -> None:
    with wire_to(shop.address) as wire:

        async def play() -> list[list[str]]:
            heard = []
            async with kind.open(wire.url) as caller, caller.transaction():
                await caller.publish(shop.app, "begins")  # with whatever the library says when it begins
                # Often enough for a driver that prepares what comes again.
                for number in range(8):
                    wire.statements.clear()
                    await caller.publish(shop.app, f"trip {number}")
                    heard.append(list(wire.statements))
            return heard

        heard = kind.run(play())

    assert [len(each) for each in heard] == [1] * 8
    assert all("publish_one(" in statement for each in heard for statement in each)


@ON_POSTGRES
def test_the_first_publish_of_a_transaction_adds_nothing_but_its_begin(kind: Kind, shop: Shop) -> None:
    with wire_to(shop.address) as wire:

        async def play() -> list[str]:
            async with kind.open(wire.url) as caller:
                async with caller.transaction():
                    await caller.publish(shop.app, "connects")
                wire.statements.clear()
                async with caller.transaction():
                    await caller.publish(shop.app, "begins")
                    return list(wire.statements)

        heard = kind.run(play())

    *before, last = heard
    assert "publish_one(" in last
    assert len(before) <= 1
    assert all(each.upper().startswith("BEGIN") for each in before)
