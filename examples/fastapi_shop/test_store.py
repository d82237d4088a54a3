"""Tests of the store, without a worker, a sleep or a row left behind."""

import pytest
from httpx2 import AsyncClient
from sqlalchemy import func, select
from store.consumers import expire, send_receipt
from store.database import Order, sessions
from store.messages import OrderPlaced
from store.post import PostOffice

from mainspring import Testing


async def orders() -> int:
    async with sessions() as session:
        return await session.scalar(select(func.count()).select_from(Order)) or 0


async def test_a_customer_gets_one_receipt(
    mainspring: Testing, customer: AsyncClient, capsys: pytest.CaptureFixture[str]
) -> None:
    order = (await customer.post("/orders", json={"email": "ada@example.com", "total": 950})).json()
    await mainspring.drain()

    assert mainspring.delivered(send_receipt, order_id=order["id"])
    assert capsys.readouterr().out == f"to ada@example.com: 9.50 for order {order['id']}\n"
    assert (await customer.get(f"/orders/{order['id']}")).json()["receipt"] is True


async def test_a_receipt_that_cannot_be_sent_is_retried(
    mainspring: Testing, customer: AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[str] = []

    async def send(_: PostOffice, to: str, __: str) -> None:
        if not sent:
            sent.append("nothing")
            raise ConnectionError("the post office is closed")
        sent.append(to)

    monkeypatch.setattr(PostOffice, "send", send)
    await customer.post("/orders", json={"email": "ada@example.com", "total": 950})
    await mainspring.advance("10m")

    assert sent == ["nothing", "ada@example.com"]
    assert [ran.outcome for ran in mainspring.runs] == ["failed", "done"]


async def test_a_rejected_order_publishes_nothing(mainspring: Testing, customer: AsyncClient) -> None:
    answer = await customer.post("/orders", json={"email": "ada@example.com", "total": 0})

    assert answer.status_code == 422
    assert await orders() == 0
    assert await mainspring.advance("1h") == []


async def test_an_unpaid_order_expires_after_a_quarter_of_an_hour(mainspring: Testing, customer: AsyncClient) -> None:
    order = (await customer.post("/orders", json={"email": "ada@example.com", "total": 950})).json()
    await mainspring.advance("14m")
    assert (await customer.get(f"/orders/{order['id']}")).json()["status"] == "placed"

    await mainspring.advance("1m")

    assert mainspring.delivered(expire, order_id=order["id"])
    assert (await customer.get(f"/orders/{order['id']}")).json()["status"] == "expired"


async def test_a_paid_order_never_expires(mainspring: Testing, customer: AsyncClient) -> None:
    order = (await customer.post("/orders", json={"email": "ada@example.com", "total": 950})).json()
    await customer.post(f"/orders/{order['id']}/pay")

    await mainspring.advance("1h")

    assert mainspring.delivered(expire) == []
    assert (await customer.get(f"/orders/{order['id']}")).json()["status"] == "paid"


async def test_nothing_of_a_test_is_left_for_the_next(mainspring: Testing) -> None:
    assert await orders() == 0
    assert mainspring.published(OrderPlaced) == []
    assert mainspring.pending == []
