"""Batches of an intake: one is received while another is stored, and what is not stored is given back."""

import asyncio
import json
import logging
from collections import UserDict
from collections.abc import ItemsView, Mapping, Sequence
from pathlib import Path
from uuid import UUID

import pytest
from msgspec.structs import replace

from mainspring import Mainspring
from mainspring.brokers.contract import BrokerConnection, Received
from mainspring.brokers.memory import MemoryBroker, MemoryConnection, MemoryQueues
from mainspring.model.errors import BrokerUnavailable
from mainspring.model.inbox import InboxReceipt
from mainspring.model.message import Draft
from mainspring.runtime.intake import in_parts
from tests.brokers.bench import TOPIC, event, until


class Logged(MemoryBroker):
    """Notes what is received and acknowledged, as numbers of messages."""

    def __init__(self, queues: MemoryQueues, *, read: str) -> None:
        super().__init__(queues, read=read)
        self.log: list[tuple[str, int]] = []

    async def connect(self) -> BrokerConnection:
        made = await super().connect()
        assert isinstance(made, MemoryConnection)
        receive, acknowledge, give_back = made.receive, made.ack, made.nack

        async def received(limit: int, wait: float) -> list[Received]:
            found = await receive(limit, wait)
            self.log.append(("received", len(found)))
            return found

        async def ack(received: Sequence[Received]) -> None:
            self.log.append(("acknowledged", len(received)))
            await acknowledge(received)

        async def nack(received: Sequence[Received]) -> None:
            self.log.append(("given back", len(received)))
            await give_back(received)

        made.receive, made.ack, made.nack = received, ack, nack  # type: ignore[method-assign]
        return made


@pytest.mark.parametrize("pending_limit", [None, 10_000])
async def test_while_a_full_batch_is_stored_the_next_is_received_unless_a_limit_is_to_be_kept(
    tmp_path: Path, queues: MemoryQueues, pending_limit: int | None
) -> None:
    app = Mainspring(f"sqlite:///{tmp_path}/billing.db", name="billing", auto_migrate=True)
    broker = Logged(queues, read="orders")
    for number in range(600):
        queues.put("orders", event(number))

    @app.consumer(TOPIC, source=broker, pending_limit=pending_limit)
    async def bill(order: dict[str, int]) -> None: ...

    async with app.worker():
        await until(lambda: ("acknowledged", 100) in broker.log)

    took, gave = "received", "acknowledged"
    in_turn = [(took, 250), (gave, 250), (took, 250), (gave, 250), (took, 100), (gave, 100)]
    ahead = [(took, 250), (took, 250), (gave, 250), (took, 100), (gave, 250), (gave, 100)]
    assert [each for each in broker.log if each[1]] == (ahead if pending_limit is None else in_turn)


class Slow(Logged):
    """Acknowledges the first batch only when it is told to, or fails to."""

    def __init__(self, queues: MemoryQueues, *, read: str) -> None:
        super().__init__(queues, read=read)
        self.may_acknowledge = asyncio.Event()
        self.error: BrokerUnavailable | None = None

    async def connect(self) -> BrokerConnection:
        made = await super().connect()
        assert isinstance(made, MemoryConnection)
        acknowledge = made.ack

        async def ack(received: Sequence[Received]) -> None:
            await self.may_acknowledge.wait()
            error, self.error = self.error, None
            if error is not None:
                raise error
            await acknowledge(received)

        made.ack = ack  # type: ignore[method-assign]
        return made


async def test_while_a_full_batch_is_acknowledged_the_next_is_stored_and_no_more(
    tmp_path: Path, queues: MemoryQueues
) -> None:
    app = Mainspring(f"sqlite:///{tmp_path}/billing.db", name="billing", auto_migrate=True)
    broker = Slow(queues, read="orders")
    for number in range(1_000):
        queues.put("orders", event(number))

    @app.consumer(TOPIC, source=broker)
    async def bill(order: dict[str, int]) -> None: ...

    async with app.worker() as worker:
        counts = worker.links()[0][1].counts
        await until(lambda: counts["received"] == 750)
        await until(lambda: counts["stored"] == 500)
        assert ("acknowledged", 250) not in broker.log
        broker.may_acknowledge.set()
        await until(lambda: broker.log.count(("acknowledged", 250)) == 4)
        assert counts["stored"] == 1_000


async def test_an_acknowledgement_that_fails_while_the_next_batch_is_stored_is_logged(
    tmp_path: Path, queues: MemoryQueues, caplog: pytest.LogCaptureFixture
) -> None:
    app = Mainspring(f"sqlite:///{tmp_path}/billing.db", name="billing", auto_migrate=True)
    broker = Slow(queues, read="orders")
    broker.error = BrokerUnavailable("it was not taken")
    broker.may_acknowledge.set()
    for number in range(1_000):
        queues.put("orders", event(number))

    @app.consumer(TOPIC, source=broker)
    async def bill(order: dict[str, int]) -> None: ...

    async with app.worker() as worker:
        counts = worker.links()[0][1].counts
        await until(lambda: counts["stored"] == 1_000)
        await until(lambda: broker.log.count(("acknowledged", 250)) == 3)

    assert any("it was not taken" in each.getMessage() for each in caplog.records if each.name.startswith("mainspring"))


async def test_a_worker_that_stops_waits_for_what_is_being_acknowledged(tmp_path: Path, queues: MemoryQueues) -> None:
    app = Mainspring(f"sqlite:///{tmp_path}/billing.db", name="billing", auto_migrate=True)
    broker = Slow(queues, read="orders")
    for number in range(2_000):
        queues.put("orders", event(number))

    @app.consumer(TOPIC, source=broker)
    async def bill(order: dict[str, int]) -> None: ...

    async with app.worker() as worker:
        counts = worker.links()[0][1].counts
        await until(lambda: counts["stored"] == 500)
        stopping = asyncio.create_task(worker.stop())
        ended, _ = await asyncio.wait([stopping], timeout=0.5)
        broker.may_acknowledge.set()
        await stopping

    assert not ended

    assert len(queues.waiting["orders"]) == 2_000 - counts["stored"]


async def test_what_was_received_ahead_is_given_back_in_its_order_by_a_worker_that_stops(
    tmp_path: Path, queues: MemoryQueues
) -> None:
    app = Mainspring(f"sqlite:///{tmp_path}/billing.db", name="billing", auto_migrate=True)
    broker = Logged(queues, read="orders")
    for number in range(2_000):
        queues.put("orders", event(number))

    @app.consumer(TOPIC, source=broker)
    async def bill(order: dict[str, int]) -> None: ...

    async with app.worker():
        await until(lambda: ("acknowledged", 250) in broker.log)

    acknowledged = sum(count for what, count in broker.log if what == "acknowledged")
    left = [json.loads(each.body)["n"] for each in queues.waiting["orders"]]
    assert sum(count for what, count in broker.log if what == "received") > acknowledged
    assert left == list(range(acknowledged, 2_000))


async def test_a_worker_that_stops_while_it_reads_what_it_received_gives_that_back(
    tmp_path: Path, queues: MemoryQueues
) -> None:
    app = Mainspring(f"sqlite:///{tmp_path}/billing.db", name="billing", auto_migrate=True)
    broker = Logged(queues, read="orders")
    stopping: list[asyncio.Task[None]] = []

    class Stops(UserDict[str, str | bytes]):
        """Headers that stop the worker when they are read."""

        def items(self) -> ItemsView[str, str | bytes]:
            if not stopping:
                stopping.append(asyncio.create_task(worker.stop()))
            return super().items()

    @app.consumer(TOPIC, source=broker)
    async def bill(order: dict[str, int]) -> None: ...

    async with app.worker() as worker:
        for number in range(250):
            queues.put("orders", replace(event(number), headers=Stops(event(number).headers)))
        await until(lambda: bool(stopping))
        await stopping[0]

    assert ("given back", 250) in broker.log
    assert ("acknowledged", 250) not in broker.log


async def test_large_messages_are_stored_in_parts_and_acknowledged_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mainspring.runtime.intake._MOST_BYTES", 100)
    app = Mainspring(f"sqlite:///{tmp_path}/billing.db", name="billing")
    queues = MemoryQueues({"orders": [TOPIC]})
    source = Logged(queues, read="orders")
    app.intake(source)
    for number in range(5):
        queues.put("orders", replace(event(number), body=b" " * 60 + b"1"))
    parts: list[int] = []

    async with app.worker() as worker:
        receive = worker._storage.inbox.receive

        async def noted(group: str, name: str, received: Mapping[str, Draft]) -> InboxReceipt:
            parts.append(len(received))
            return await receive(group, name, received)

        monkeypatch.setattr(worker._storage.inbox, "receive", noted)
        for number in range(5, 10):
            queues.put("orders", replace(event(number), body=b" " * 60 + b"1"))
        await until(lambda: worker.links()[0][1].counts["stored"] == 10)

    assert set(parts) == {1}
    assert sum(count for what, count in source.log if what == "acknowledged") == 10


def test_parts_are_in_order_and_one_that_is_too_large_has_its_own() -> None:
    sizes = [3, 4 * 1024 * 1024, 4 * 1024 * 1024 - 3, 1, 9 * 1024 * 1024, 1]
    drafts = {str(place): Draft(UUID(int=place), TOPIC, b"x" * size) for place, size in enumerate(sizes)}

    assert [list(part) for part in in_parts(drafts)] == [["0", "1", "2"], ["3"], ["4"], ["5"]]


async def test_a_repeat_with_another_payload_is_logged_also_within_one_batch(caplog: pytest.LogCaptureFixture) -> None:
    app = Mainspring("memory://", name="billing")
    queues = MemoryQueues({"orders": [TOPIC]})
    app.intake(MemoryBroker(queues, read="orders"))
    queues.put("orders", event(1))
    queues.put("orders", event(2, **{"ce-id": "evt-1"}))

    with caplog.at_level(logging.WARNING, "mainspring.brokers"):
        async with app.worker() as worker:
            await until(lambda: worker.links()[0][1].counts["repeat"] == 1)

    assert "evt-1 of memory:orders came again with another payload" in caplog.text
