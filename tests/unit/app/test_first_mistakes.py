"""What a newcomer writes first, and wrongly: each is rejected with what to write."""

import asyncio
import copy
import pickle
import re
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast
from uuid import UUID

import pytest
from fastapi import FastAPI
from sqlalchemy.orm import Session

from mainspring import Mainspring, Queue, Receipt
from mainspring.integrations.fastapi import lifespan
from mainspring.model.errors import BadOption, MainspringError

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


@dataclass
class Placed:
    id: int


def _below_dataclass() -> None:
    @dataclass
    @shop.message("orders.sent")
    class Sent:
        id: int


def _without_payload() -> None:
    @shop.recurring("0 9 * * *")
    async def report(report: dict[str, Any]) -> None: ...


def _in_a_loop() -> None:
    async def main() -> None:
        shop.run()

    asyncio.run(main())


def _with_hold() -> None:
    with app.leases.hold("reports"):
        pass


def _transactional(session: Any) -> None:
    @shop.consumer("orders.placed", transactional=session)
    def write(order: dict[str, Any]) -> None: ...


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (
            lambda: app.message(Placed),
            "@app.message has no parentheses above Placed: write @app.message('orders.placed')",
        ),
        (_below_dataclass, "Sent cannot be a payload: use a dataclass, msgspec.Struct"),
        (_below_dataclass, "; if it has @dataclass, put @app.message above that"),
        (lambda: app.recurring(hour=9, minute=0), "has no option 'hour': write '0 9 * * *', a cron expression, first"),
        (app.recurring, "needs a rhythm: '0 9 * * mon-fri' or every('90s')"),
        (_without_payload, "give payload={…}, or drop the parameter 'report' of"),
        (
            lambda: app.schedules.put("nightly", cron="0 9 * * *", consumer=send_receipt),
            "write schedules.put('nightly', '0 9 * * mon-fri', consumer), or every('90s') in its place",
        ),
        (
            lambda: app.messages.get("abc"),
            "'abc' is not a UUID: to find one by a key of yours, write app.messages.list(key=…)",
        ),
        (lambda: app.publish("a", message_id="abc"), "'abc' is not a UUID: make one from your own id by uuid.uuid5"),
        (lambda: app.publish("a", {"x": {(1, 2): 3}}), "dict at `$.x`: its key (1, 2) is not text or a number"),
        (
            lambda: cast("Any", send_receipt).send(1, 2),
            "send_receipt.send(…) takes one payload, not 2: write send_receipt.send({'id': 7})",
        ),
        (lambda: app.publish_many("a.b", [1, 2]), "write app.publish_many(('orders.placed', each) for each in …)"),
        (lambda: _transactional(Session()), "pass the factory, without parentheses after it"),
        (_in_a_loop, "app.run() would block the event loop it is called on: write `async with app.worker():`"),
        (_with_hold, "app.leases.hold(…) is a block: write `async with app.leases.hold(…) as lease:`"),
        (lambda: app.leases.hold("reports"), "`await app.leases.acquire(…)` needs no block"),
        (
            lambda: lifespan(cast("Any", FastAPI())),
            "takes your app, not FastAPI: write FastAPI(lifespan=lifespan(app))",
        ),
    ],
)
def test_a_first_mistake_is_rejected_with_what_to_write(call: Callable[[], Any], said: str) -> None:
    with pytest.raises(MainspringError, match=re.escape(said)):
        called(call)


@pytest.mark.parametrize(
    ("thing", "word", "said"),
    [
        (
            Receipt(UUID(int=7), "stored"),
            "get",
            "there is no receipt.get: nothing waits for results; write await app.messages.get(receipt.id)",
        ),
        (Receipt(UUID(int=7), "stored"), "result", "nothing waits for results"),
        (app.schedules, "add_job", "write await app.schedules.put('name', '0 9 * * *', consumer)"),
        (app.dead, "retry", "write await app.dead.revive(message_id)"),
        (app.sync.dead, "retry", "write app.sync.dead.revive(message_id)"),
        (packing, "get", "write await queue.claim(batch=10)"),
        (app.sync, "testing", "write app.testing(), whose kit.sync serves blocking tests"),
        (app, "start", "write app.run(), or `mainspring worker shop:app`"),
    ],
)
def test_a_foreign_method_is_answered_by_us_alone(thing: object, word: str, said: str) -> None:
    with pytest.raises(AttributeError) as raised:
        getattr(thing, word)

    assert said in str(raised.value)
    assert "Did you mean" not in "".join(traceback.format_exception(raised.value))


def test_a_receipt_lacks_what_it_lacks() -> None:
    receipt = Receipt(UUID(int=7), "stored")

    assert not hasattr(receipt, "colour")
    assert copy.deepcopy(receipt) == pickle.loads(pickle.dumps(receipt)) == receipt
