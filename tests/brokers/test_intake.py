"""Intake: what a broker delivers is stored, once, before it is acknowledged."""

import asyncio
import logging
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from mainspring import Context, Mainspring
from mainspring.brokers.contract import BrokerConnection, Received
from mainspring.brokers.memory import MemoryBroker, MemoryConnection, MemoryQueues
from mainspring.model.errors import BrokerUnavailable
from tests.brokers.bench import TOPIC, event, until


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def app(request: pytest.FixtureRequest, tmp_path: Path, postgres_url: str, postgres_schema: str) -> Mainspring:
    urls = {"memory": "memory://", "sqlite": f"sqlite:///{tmp_path}/billing.db", "postgresql": postgres_url}
    return Mainspring(urls[request.param], name="billing", schema=postgres_schema, auto_migrate=True)


@pytest.fixture
def quiet() -> Mainspring:
    return Mainspring("memory://", name="billing")


async def test_each_is_handled_once_however_often_it_is_sent(app: Mainspring, queues: MemoryQueues) -> None:
    handled: list[tuple[int, str | None]] = []

    @app.consumer(TOPIC, source=MemoryBroker(queues, read="orders"))
    async def bill(order: dict[str, int], ctx: Context) -> None:
        handled.append((order["n"], ctx.key))

    async with app.worker():
        for _ in range(3):
            for number in range(10):
                queues.put("orders", event(number))
        await until(lambda: not queues.waiting["orders"] and len(handled) == 10)
        queues.put("orders", event(3))
        queues.put("orders", event(10))
        await until(lambda: len(handled) == 11)

    assert sorted(handled) == [(number, f"order:{number}") for number in range(11)]
    assert not any(queues.waiting.values())


class BreaksBeforeAck(MemoryBroker):
    """Loses its first connection when that is to acknowledge."""

    acks = 0

    async def connect(self) -> BrokerConnection:
        made = await super().connect()
        assert isinstance(made, MemoryConnection)
        plain = made.ack

        async def ack(received: Sequence[Received]) -> None:
            self.acks += 1
            if self.acks == 1:
                made.drop()
            await plain(received)

        made.ack = ack  # type: ignore[method-assign]
        return made


async def test_one_that_was_stored_and_not_acknowledged_is_refused_when_it_comes_again(
    app: Mainspring, queues: MemoryQueues
) -> None:
    handled: list[int] = []
    broker = BreaksBeforeAck(queues, read="orders")

    @app.consumer(TOPIC, source=broker)
    async def bill(order: dict[str, int]) -> None:
        handled.append(order["n"])

    async with app.worker():
        queues.put("orders", event(1))
        await until(lambda: broker.acks == 2)
        queues.put("orders", event(2))
        await until(lambda: broker.acks == 3 and len(handled) == 2)

    assert sorted(handled) == [1, 2]
    assert not queues.waiting["orders"]


class LosesItsQueue(MemoryBroker):
    """Loses the queue that it reads once, and keeps its connection."""

    async def connect(self) -> BrokerConnection:
        made = await super().connect()
        assert isinstance(made, MemoryConnection)
        plain = made.receive

        async def receive(limit: int, wait: float) -> list[Received]:
            if self.read not in self.queues.waiting:
                raise BrokerUnavailable(f"there is no queue {self.read!r}")
            return await plain(limit, wait)

        made.receive = receive  # type: ignore[method-assign]
        return made


async def test_a_source_that_is_gone_is_made_again_where_that_is_wanted(
    quiet: Mainspring, queues: MemoryQueues
) -> None:
    handled: list[int] = []
    broker = LosesItsQueue(queues, read="orders")
    broker.declare = True

    @quiet.consumer(TOPIC, source=broker)
    async def bill(order: dict[str, int]) -> None:
        handled.append(order["n"])

    async with quiet.worker():
        queues.put("orders", event(1))
        await until(lambda: handled == [1])
        del queues.waiting["orders"]
        queues.wake()
        await until(lambda: "orders" in queues.waiting)
        queues.put("orders", event(2))
        await until(lambda: handled == [1, 2])


async def test_a_worker_of_some_groups_reads_the_sources_of_these(queues: MemoryQueues) -> None:
    app = Mainspring("memory://", name="billing")
    handled: list[int] = []

    @app.consumer(TOPIC, source=MemoryBroker(queues, read="orders"))
    async def bill(order: dict[str, int]) -> None:
        handled.append(order["n"])

    @app.consumer("invoices.paid")
    async def book(invoice: int) -> None: ...

    queues.put("orders", event(1))
    async with app.worker(groups=["book"]) as worker:
        others = worker.links()
    async with app.worker(groups=["bill"]):
        await until(lambda: handled == [1])

    assert not others


async def test_an_intake_publishes_by_topic_to_all_consumers(app: Mainspring, queues: MemoryQueues) -> None:
    handled: list[str] = []
    app.intake(MemoryBroker(queues, read="orders"), {"orders": TOPIC})

    @app.consumer(TOPIC)
    async def bill(order: dict[str, int]) -> None:
        handled.append("bill")

    @app.consumer("orders.*")
    async def audit(order: dict[str, int]) -> None:
        handled.append("audit")

    async with app.worker():
        queues.put("orders", event(1))
        await until(lambda: sorted(handled) == ["audit", "bill"])


async def test_one_that_cannot_be_stored_is_a_dead_letter_with_its_bytes_and_blocks_nothing(
    app: Mainspring, queues: MemoryQueues
) -> None:
    handled: list[int] = []
    app.intake(MemoryBroker(queues, read="orders"))

    @app.consumer(TOPIC)
    async def bill(order: dict[str, int]) -> None:
        handled.append(order["n"])

    large = Received(b"x" * 300_000, {"ce-id": "large", "ce-type": TOPIC}, "application/json", "", "")
    nameless = Received(b"{}", {"ce-id": "nameless"}, "application/json", "", "")
    binary = Received(b"{}", {"ce-id": "binary", "ce-type": TOPIC, "name": b"\xff"}, "application/json", "", "")
    odd = replace(event(2), unreadable="its properties are no UTF-8 text")
    async with app.worker():
        for each in (large, nameless, binary, odd, event(1)):
            queues.put("orders", each)
        await until(lambda: handled == [1])

        async def are_dead() -> bool:
            return sum(each.dead for each in (await app.stats.tally()).groups) == 4

        await until(are_dead)
        causes = (await app.dead.causes()).rows

    errors = sorted(each.error for each in causes)
    assert [each.partition(":")[0] for each in errors] == [
        "it names no topic",
        "its 300,000 bytes exceed the payload_limit of 262,144",
        "its header 'name' is no UTF-8 text",
        "its properties are no UTF-8 text",
    ]
    assert {each.group for each in causes} == {"intake:memory:orders"}


async def test_a_refused_one_that_is_revived_after_the_fix_is_published_once(
    tmp_path: Path, queues: MemoryQueues
) -> None:
    url = f"sqlite:///{tmp_path}/billing.db"
    before = Mainspring(url, name="billing", auto_migrate=True)
    before.intake(MemoryBroker(queues, read="orders"), {"invoices": "invoices.paid"})
    async with before.worker():
        queues.put("orders", event(1))

        async def is_dead() -> bool:
            return sum(each.dead for each in (await before.stats.tally()).groups) == 1

        await until(is_dead)

    handled: list[int] = []
    after = Mainspring(url, name="billing")
    after.intake(MemoryBroker(queues, read="orders"), {"orders": TOPIC})

    @after.consumer(TOPIC)
    async def bill(order: dict[str, int]) -> None:
        handled.append(order["n"])

    async with after.worker():
        await after.dead.revive(everything=True)
        await until(lambda: handled == [1])


DEEP = b"[" * 200_000 + b"]" * 200_000


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (b'{"id": "1", "type": "orders.placed", "data": ' + DEEP + b"}", "application/cloudevents+json"),
        (b'{"id": "1", "datacontenttype": "text/plain", "data": "\xff"}', "application/cloudevents+json"),
        (b"{}", "x\x00"),
        (b"{}", "x" * 300),
    ],
)
async def test_poison_in_a_batch_blocks_no_other(
    app: Mainspring, queues: MemoryQueues, body: bytes, content_type: str
) -> None:
    handled: list[int] = []

    @app.consumer(TOPIC, source=MemoryBroker(queues, read="orders"))
    async def bill(order: dict[str, int]) -> None:
        handled.append(order["n"])

    for each in (event(1), Received(body, {}, content_type, "", ""), event(2)):
        queues.put("orders", each)
    async with app.worker():
        await until(lambda: len(handled) == 2)

        async def is_dead() -> bool:
            return sum(each.dead for each in (await app.stats.tally()).groups) == 1

        await until(is_dead)

    assert sorted(handled) == [1, 2]
    assert not queues.waiting["orders"]


async def test_two_senders_may_count_alike(quiet: Mainspring, queues: MemoryQueues) -> None:
    handled: list[int] = []

    @quiet.consumer(TOPIC, source=MemoryBroker(queues, read="orders"))
    async def bill(order: dict[str, int]) -> None:
        handled.append(order["n"])

    async with quiet.worker():
        for number, sender in enumerate(["shop", "web", "shop"]):
            queues.put("orders", event(number, **{"ce-id": "1", "ce-source": sender}))
        queues.put("orders", event(3, **{"ce-id": "2", "ce-source": "shop"}))
        await until(lambda: 3 in handled)

    assert sorted(handled) == [0, 1, 3]


async def test_a_refused_message_takes_no_id_from_a_corrected_one(quiet: Mainspring, queues: MemoryQueues) -> None:
    handled: list[int] = []

    @quiet.consumer(TOPIC, source=MemoryBroker(queues, read="orders"))
    async def bill(order: dict[str, int]) -> None:
        handled.append(order["n"])

    large = Received(b"x" * 300_000, {}, "application/json", "", "", message_id="m-1")
    fixed = Received(b'{"n": 1}', {}, "application/json", "", "", message_id="m-1")
    async with quiet.worker():
        queues.put("orders", large)
        queues.put("orders", fixed)
        await until(lambda: handled == [1])


async def test_a_refused_one_that_came_again_before_it_was_revived_is_handled_once(
    tmp_path: Path, queues: MemoryQueues
) -> None:
    url = f"sqlite:///{tmp_path}/billing.db"
    before = Mainspring(url, name="billing", auto_migrate=True)
    before.intake(MemoryBroker(queues, read="orders"), {"invoices": "invoices.paid"})

    async def dead(app: Mainspring, count: int) -> None:
        async def so_many() -> bool:
            return sum(each.dead for each in (await app.stats.tally()).groups) == count

        await until(so_many)

    async with before.worker():
        queues.put("orders", event(1))
        await dead(before, 1)

    handled: list[int] = []
    after = Mainspring(url, name="billing")
    after.intake(MemoryBroker(queues, read="orders"), {"orders": TOPIC})

    @after.consumer(TOPIC)
    async def bill(order: dict[str, int]) -> None:
        handled.append(order["n"])

    async with after.worker():
        queues.put("orders", event(1))
        await until(lambda: handled == [1])
        await after.dead.revive(everything=True)
        await dead(after, 0)
        queues.put("orders", event(2))
        await until(lambda: 2 in handled)

    assert handled == [1, 2]


async def test_a_drained_worker_reads_no_more(quiet: Mainspring, queues: MemoryQueues) -> None:
    handled: list[int] = []

    @quiet.consumer(TOPIC, source=MemoryBroker(queues, read="orders"))
    async def bill(order: dict[str, int]) -> None:
        handled.append(order["n"])

    async with quiet.worker(name="one") as worker:
        queues.put("orders", event(1))
        await until(lambda: handled == [1])
        await quiet.workers.drain("one", by="ann")
        await until(lambda: not worker.serves("bill"))
        await until(lambda: not queues.waiters)
        await until(lambda: not worker.links()[0][1].is_open)  # what a broker would hand to it is for others
        queues.put("orders", event(2))
        before = worker.progress()["intake memory:orders"].turns
        await until(lambda: worker.progress()["intake memory:orders"].turns > before)

    assert (handled, len(queues.waiting["orders"])) == ([1], 1)


async def test_a_worker_that_stops_while_it_connects_ends_at_once(quiet: Mainspring) -> None:
    connecting = asyncio.Event()

    class Hanging(MemoryBroker):
        async def connect(self) -> BrokerConnection:
            connecting.set()
            await asyncio.Event().wait()
            raise AssertionError("it never ends")

    quiet.intake(Hanging(MemoryQueues({}), read="orders"))
    async with quiet.worker() as worker:
        await connecting.wait()
        began = time.monotonic()
        await worker.stop()

    assert time.monotonic() - began < 2, "nothing else was running"


async def test_a_source_that_cannot_be_read_is_logged_once_a_minute(
    quiet: Mainspring, queues: MemoryQueues, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "mainspring.runtime.reports._SPACING", 0.0
    )  # the limit of all lines, which hides that of this one
    caplog.set_level(logging.INFO, "mainspring")
    quiet.consumer(TOPIC, source=LosesItsQueue(queues, read="orders"))(_handle)
    del queues.waiting["orders"]

    async with quiet.worker() as worker:
        await until(lambda: worker.progress()["intake memory:orders"].failed >= 4)

    said = [each for each in caplog.messages if each.startswith("intake") or "connected again" in each]
    assert len(said) == 1


async def _handle(order: dict[str, int]) -> None: ...
