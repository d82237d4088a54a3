"""What a newcomer writes first, and wrongly: each is rejected with what to write."""

import asyncio
import re
from collections.abc import Callable
from typing import Any

import pytest

from mainspring import Mainspring, Queue
from mainspring.model.errors import BadOption

shop = Mainspring("memory://", name="shop")
app: Any = shop  # of no type: what is written to it here is wrong


@shop.consumer("orders.placed")
async def send_receipt(order: dict[str, Any]) -> None: ...


packing: Any = shop.queue("packing", "orders.placed")


def called(call: Callable[[], Any]) -> None:
    """Call it, and await what it returns."""
    answer = call()
    if hasattr(answer, "__await__"):

        async def awaited() -> None:
            async with shop:
                await answer

        asyncio.run(awaited())


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (
            lambda: app.leases.hold("reports", timeout=5),
            (
                "app.leases.hold(…) has no option 'timeout': write ttl='30s', how long it lasts after a renewal, or "
                "wait='10s', how long to wait for it"
            ),
        ),
        (lambda: app.leases.acquire("reports", tll="5s"), "has no option 'tll'. Did you mean 'ttl'? It accepts holder"),
        (lambda: packing.claim(size=5), "queue.claim(…) has no option 'size': write batch=10"),
        (lambda: packing.reap(timeout=5), "queue.reap(…) has no option 'timeout': write hold='1m'"),
        (
            lambda: app.messages.list(status="dead"),
            "app.messages.list(…) has no option 'status': the state comes first: app.messages.list('dead')",
        ),
        (lambda: app.messages.search(worker="a"), "app.messages.search(…) has no option 'worker'"),
        (
            lambda: app.dead.revive(id="a"),
            "app.dead.revive(…) has no option 'id': the id comes first: app.dead.revive(message_id)",
        ),
        (
            lambda: app.cancel(message_id="a"),
            "app.cancel(…) has no option 'message_id': the id comes first: app.cancel(message_id), or a topic with",
        ),
        (lambda: app.testing(now=None), "app.testing(…) has no option 'now': write start=…, an aware datetime"),
        (lambda: app.sync.dead.revive(id="a"), "app.dead.revive(…) has no option 'id'"),
        (lambda: app.publish("orders.placed", {}, id="a"), "has no option 'id': write message_id=…"),
    ],
)
def test_an_unknown_option_is_rejected_with_ours(call: Callable[[], Any], said: str) -> None:
    with pytest.raises(BadOption, match=re.escape(said)):
        called(call)


def test_a_call_with_checked_options_keeps_its_name_and_text() -> None:
    assert (Queue.claim.__qualname__, (Queue.claim.__doc__ or "")[:5]) == ("Queue.claim", "Claim")
    assert asyncio.iscoroutinefunction(Queue.claim)
