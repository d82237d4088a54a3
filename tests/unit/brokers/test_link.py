"""A link: opened when it is used, opened again when it broke, and not more often than its pause allows."""

import asyncio
import logging
from itertools import pairwise

import pytest

from mainspring.brokers.contract import SENT, BrokerConnection, SendResult, WireMessage
from mainspring.brokers.link import Link
from mainspring.brokers.memory import MemoryBroker, MemoryQueues
from mainspring.model.errors import BadOption, BrokerUnavailable, MissingExtra, Misuse
from mainspring.model.views import BrokerLink

ONE = WireMessage("1", "orders.placed", b"{}", "application/json", {})


class Counting(MemoryBroker):
    """Counts the connections that were asked for."""

    attempts = 0

    async def connect(self) -> BrokerConnection:
        self.attempts += 1
        return await super().connect()


class Hanging(MemoryBroker):
    """Never connects."""

    async def connect(self) -> BrokerConnection:
        await asyncio.Event().wait()
        raise AssertionError("it waits for ever")


class Moment:
    """Seconds that a test sets."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def broker() -> Counting:
    return Counting(MemoryQueues({"billing": []}))


async def test_it_is_opened_by_its_first_use_and_kept(broker: Counting) -> None:
    link = Link(broker)
    assert (link.is_open, broker.attempts) == (False, 0)

    assert await link.send([ONE]) == [SENT]
    assert await link.send([ONE]) == [SENT]

    assert (link.is_open, broker.attempts, link.counts["reconnected"], link.error) == (True, 1, 0, None)
    await link.close()
    assert not link.is_open


async def test_one_connection_serves_all_that_open_it_at_once(broker: Counting) -> None:
    link = Link(broker)

    connections = await asyncio.gather(*(link.connection() for _ in range(10)))

    assert len({id(each) for each in connections}) == 1
    assert broker.attempts == 1


async def test_a_connection_that_broke_is_opened_again(broker: Counting, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "mainspring.brokers")
    link = Link(broker)
    await link.send([ONE])
    broker.queues.fail()
    broker.queues.heal()

    assert await link.send([ONE]) == [SENT]

    assert (broker.attempts, link.counts["reconnected"]) == (2, 1)
    assert caplog.messages == ["memory://broker is connected again"]


async def test_without_a_connection_all_are_for_later_and_the_pause_grows(
    broker: Counting, caplog: pytest.LogCaptureFixture
) -> None:
    moment = Moment()
    broker.queues.fail("it was stopped")
    link = Link(broker, moment)
    later = SendResult("later", "memory://broker is not connected: it was stopped")

    assert await link.send([ONE, ONE]) == [later, later]
    assert await link.send([ONE]) == [later]
    assert broker.attempts == 1, "within the pause nothing is tried"
    pauses: list[float] = []
    for _ in range(12):
        while (await link.send([ONE])) == [later] and broker.attempts == len(pauses) + 1:
            moment.now += 0.05
        pauses.append(moment.now)
    broker.queues.heal()
    moment.now += 15
    assert await link.send([ONE]) == [SENT]

    lengths = [second - first for first, second in pairwise(pauses)]
    assert all(length <= 15.1 for length in lengths)
    assert max(lengths) > 7
    assert lengths[0] < 1
    assert [each for each in caplog.messages if "cannot be reached" in each] == [
        "memory://broker cannot be reached, and is tried again: it was stopped"
    ]


async def test_it_waits_for_a_connection_as_long_as_it_may(broker: Counting) -> None:
    broker.queues.fail()
    link = Link(broker)
    waiting = asyncio.create_task(link.send([ONE], 60))
    while not broker.attempts:
        await asyncio.sleep(0)

    broker.queues.heal()

    assert await waiting == [SENT]


async def test_a_broker_that_does_not_respond_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mainspring.brokers.link.CONNECT_WITHIN", 0.01)

    with pytest.raises(BrokerUnavailable, match=r"no response within 0\.01 s"):
        await Link(Hanging(MemoryQueues({}))).connection()


async def test_what_is_missing_is_named_when_it_is_first_opened(caplog: pytest.LogCaptureFixture) -> None:
    link = Link(MemoryBroker(MemoryQueues({}), read="billing"))

    await link.connection()
    link.broker.queues.fail()  # type: ignore[attr-defined]
    link.broker.queues.heal()  # type: ignore[attr-defined]
    await link.connection()

    assert caplog.messages == ["memory://broker: there is no queue 'billing': declare=True makes it"]


async def test_what_is_missing_is_made_where_that_is_wanted(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "mainspring.brokers")
    broker = MemoryBroker(MemoryQueues({}), read="billing")
    broker.declare = True

    await Link(broker).connection()

    assert list(broker.queues.waiting) == ["billing"]
    assert caplog.messages == ["memory://broker: made queue billing"]


@pytest.mark.parametrize("error", [BadOption("url: 'colour' is no option"), MissingExtra("aiormq", "rabbitmq", "it")])
async def test_what_no_attempt_will_mend_is_for_later_with_its_reason(error: Misuse) -> None:
    class Wrong(MemoryBroker):
        async def connect(self) -> BrokerConnection:
            raise error

    link = Link(Wrong(MemoryQueues({"billing": []})))

    (result,) = await link.send([ONE])

    assert result == SendResult("later", f"memory://broker is not connected: {error}")
    assert (link.error, link.is_open) == (str(error), False)


async def test_what_a_broker_has_lost_is_made_again_where_that_is_wanted() -> None:
    broker = MemoryBroker(MemoryQueues({}), read="billing")
    broker.declare = True
    link = Link(broker)
    await link.connection()
    broker.queues.fail()
    broker.queues.waiting.clear()
    broker.queues.heal()

    await link.connection()

    assert list(broker.queues.waiting) == ["billing"]


class Questioned(MemoryBroker):
    """Its connections say how much waits, or why they cannot."""

    lag: int | Exception = 7

    async def connect(self) -> BrokerConnection:
        connection = await super().connect()

        async def lag() -> int:
            if isinstance(self.lag, Exception):
                raise self.lag
            return self.lag

        connection.lag = lag  # type: ignore[method-assign]
        return connection


async def test_how_much_waits_is_asked_on_an_open_connection_only() -> None:
    broker = Questioned(MemoryQueues({"billing": []}), read="billing")
    link = Link(broker)
    await link.measure()
    unused = (link.lag, link.is_open)
    await link.connection()
    await link.measure()
    known = link.lag
    await link.close()
    await link.measure()

    assert unused == (None, False)
    assert known == 7
    assert link.lag is None


async def test_how_much_waits_is_unknown_if_the_broker_does_not_tell() -> None:
    broker = Questioned(MemoryQueues({"billing": []}), read="billing")
    link = Link(broker)
    await link.connection()
    await link.measure()
    broker.lag = BrokerUnavailable("no reply within 8 s")
    await link.measure()

    assert link.lag is None
    await link.close()


async def test_a_report_of_it_has_no_password_and_no_endless_error() -> None:
    moment = Moment()
    link = Link(MemoryBroker(MemoryQueues({"billing": []})), now=moment)
    await link.send([ONE])
    up = link.view("broker", "out")
    link.broker.queues.fail(f"amqp://ann:s3cr3t@host/ is away {'x' * 1000}")  # type: ignore[attr-defined]
    await link.send([ONE])
    moment.now += 12.34
    down = link.view("broker", "out")

    assert up == BrokerLink("broker", "out", connected=True, counts={"sent": 1})
    assert (down.connected, down.down_for, down.counts) == (False, 12.3, {"sent": 1, "later": 1})
    assert down.error is not None
    assert down.error.startswith("amqp://…@host/ is away xxx")
    assert len(down.error) == 300


class Unequipped(MemoryBroker):
    """Its client is not installed."""

    async def connect(self) -> BrokerConnection:
        raise MissingExtra("aiormq", "rabbitmq", "RabbitMQ(…)")


async def test_a_client_that_is_not_installed_is_reported() -> None:
    moment = Moment()
    link = Link(Unequipped(MemoryQueues({})), now=moment)
    for _ in range(2):
        await link.send([ONE])
        moment.now += 5

    found = link.view("broker", "out")

    assert (found.connected, found.down_for) == (False, 10.0)
    assert found.error == "RabbitMQ(…) needs aiormq: pip install 'mainspring[rabbitmq]'"


async def test_one_that_opens_and_cannot_be_read_counts_as_not_connected_until_it_is(
    broker: Counting, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "mainspring.brokers")
    moment = Moment()
    link = Link(broker, now=moment)
    for _ in range(5):
        await link.connection()
        link.unread(BrokerUnavailable("no queue 'billing'"))
        await link.close()
        moment.now += 5
    await link.connection()
    unread = link.view("billing", "in")
    link.read()

    assert (unread.connected, unread.error, unread.down_for) == (False, "no queue 'billing'", 25.0)
    assert link.view("billing", "in") == BrokerLink("billing", "in", connected=True, counts={"reconnected": 5})
    assert caplog.messages == ["memory://broker is connected again"]
    await link.close()
