"""What a queue says to what cannot be meant."""

from collections.abc import Iterator
from typing import Any

import pytest

from mainspring import Mainspring, Queue, Testing, errors
from mainspring.app.consume.queue_registry import QueueRegistry


@pytest.fixture
def app() -> Mainspring:
    app = Mainspring("memory://", name="shop")

    @app.consumer("mail", group="mailer")
    async def mail(to: str) -> None: ...

    return app


@pytest.fixture
def kit(app: Mainspring) -> Iterator[Testing]:
    with app.testing() as kit:
        yield kit


@pytest.fixture
def queue(app: Mainspring, kit: Testing) -> Queue[Any]:
    return app.queue("billing", "orders.*")


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda a: a.queue("mailer", "x"), errors.Conflict, "belongs to the consumer .*mail: give the queue another"),
        (lambda a: a.queue("a/b", "x"), errors.BadOption, "has a '/'"),
        (lambda a: a.queue(""), errors.BadOption, "group must be 1 to 200"),
        (lambda a: a.queue("q", "a b"), errors.BadOption, "white space"),
        (lambda a: a.queue("q", dict), errors.BadOption, "takes topics and message types, not <class 'dict'>"),
        (lambda a: a.queue("q", "x", type=print), errors.BadSignature, "print"),
        (lambda a: a.queue("q", "x", keep="some"), errors.BadOption, "keep='some' is not one of 'all'"),
        (lambda a: a.queue("q", "x", retry="mesages"), errors.BadOption, "Did you mean 'messages'"),
        (lambda a: a.queue("q", "x", retry=3), errors.BadOption, "retry=3 is a number, not a policy"),
    ],
)
def test_a_queue_that_cannot_be_made_says_why(app: Mainspring, call: Any, kind: Any, message: str) -> None:
    for face in (app, app.sync):
        with pytest.raises(kind, match=message):
            call(face)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda q: q.claim(0), "batch=0 must be a whole number from 1 to 500"),
        (lambda q: q.claim(-1), "batch=-1"),
        (lambda q: q.claim(501), "batch=501"),
        (lambda q: q.claim(True), "batch=True"),
        (lambda q: q.claim(hold="0s"), "hold='0s' is out of bounds: it must be between 1ms and 1d"),
        (lambda q: q.claim(hold=5), "hold=5 has no unit"),
        (lambda q: q.claim(hold="2d"), "hold='2d' is out of bounds"),
        (lambda q: q.claim(owner=""), "owner must be 1 to 200 characters"),
        (lambda q: q.reap(hold="0s"), "hold='0s'"),
        (lambda q: q.wait("soon"), "timeout='soon' is not a duration"),
        (lambda q: q.extend(hold="0s"), "hold='0s'"),
        (lambda q: q.ack([]), r"takes items from queue.claim\(\), not \[\]: write queue.ack\(\*items\)"),
        (lambda q: q.ack("x"), "not 'x'"),
        (lambda q: q.ack(output=3), "output=3.* must be text"),
        (lambda q: q.abandon(delay="-5s"), "delay='-5s'"),
        (lambda q: q.fail(error=None), "error=None.* must be the exception, or text"),
        (lambda q: q.fail(error="x", retry="never"), "retry='never' is neither a policy"),
    ],
)
async def test_a_call_that_cannot_be_meant_says_why(queue: Queue[Any], call: Any, message: str) -> None:
    with pytest.raises(errors.BadOption, match=message):
        await call(queue)


async def test_an_item_goes_back_to_a_queue_of_its_own_group_once(app: Mainspring, queue: Queue[Any]) -> None:
    other = app.queue("shipping", "orders.*")
    await other.declare()
    await queue.declare()
    await app.publish("orders.placed", 1)
    [item] = await queue.claim()

    for verb in (other.ack, other.abandon, other.extend):
        with pytest.raises(errors.BadOption, match="is an item of 'billing', and this is the queue 'shipping'"):
            await verb(item)
    with pytest.raises(errors.BadOption, match="is an item of another app"):
        await Mainspring("memory://").queue("billing", "orders.*").ack(item)
    with pytest.raises(errors.BadOption, match=rf"ack\(…\) names message {item.message_id} twice"):
        await queue.ack(item, item)

    await app.queue("billing").ack(item)

    with pytest.raises(errors.Misuse, match=r"was settled already, by queue.ack\(…\): an item is settled once"):
        await queue.fail(item, error="too late")


async def test_a_consumer_cannot_have_the_group_of_a_queue(app: Mainspring) -> None:
    app.queue("billing", "orders.*")

    with pytest.raises(errors.Conflict, match=r"group 'billing' already belongs to app.queue\('billing'\)"):

        @app.consumer("orders.placed")
        async def billing(order: int) -> None: ...


async def test_a_group_has_one_set_of_topics(app: Mainspring) -> None:
    app.queue("billing", "orders.*", "invoices")
    assert app.queue("billing", "invoices", "orders.*").topics == ("invoices", "orders.*")

    with pytest.raises(errors.Conflict, match=r"was made for invoices, .* already, and now for orders\.placed"):
        app.queue("billing", "orders.placed")


async def test_without_topics_the_group_must_be_there(app: Mainspring, queue: Queue[Any]) -> None:
    with pytest.raises(errors.BadOption, match=r"there is no such group\. Did you mean 'mailer'\? There are: mailer"):
        await app.queue("mailr").claim()
    assert repr(app.queue("mailr")) == "<Queue 'mailr' of what its group subscribes to>"
    await queue.declare()
    assert await app.queue("billing").claim() == []


async def test_a_group_of_another_app_is_not_declared(app: Mainspring, kit: Testing, queue: Queue[Any]) -> None:
    await queue.declare()
    other = Mainspring("memory://", name="stock")
    other._connection.replace(app._connection.stand_in)

    with pytest.raises(errors.Conflict, match="group 'billing' belongs to app 'shop'"):
        await other.queue("billing", "orders.*").claim()


async def test_a_queue_needs_an_open_app_and_blocking_calls_no_loop() -> None:
    app = Mainspring("memory://")

    with pytest.raises(errors.NotOpen, match=r"queue\.claim\(\) needs an open app"):
        await app.queue("billing", "orders.*").claim()
    with pytest.raises(errors.Misuse, match=r"app\.sync\.queue\(…\)\.claim\(\) would block the event loop"):
        app.sync.queue("billing", "orders.*").claim()


async def test_memory_has_no_transaction_to_join() -> None:
    app = Mainspring("memory://")
    queue = app.queue("billing", "orders.*")
    async with app:
        await queue.declare()
        await app.publish("orders.placed", 1)
        [item] = await queue.claim()
        with pytest.raises(errors.BadHandle, match="memory:// has no transactions"):
            await queue.ack(item, tx=object())
        assert (await queue.ack(item)).settled == (item,)


async def test_what_app_declare_makes_known_includes_the_queues(app: Mainspring, queue: Queue[Any]) -> None:
    app.queue("mailers-own")

    assert [each.group for each in await app.declare()] == ["mailer", "billing"]


def test_while_one_suspect_is_asked_for_no_other_is() -> None:
    reserved = QueueRegistry()

    with reserved.reaping("billing", 0.0) as first:
        with reserved.reaping("mail", 0.0) as second:
            pass
        with reserved.reaping("mail", 0.0) as third:  # the end of one that was refused lets in no other
            pass
    with reserved.reaping("mail", 0.0) as afterwards:
        pass

    assert (first, second, third, afterwards) == (True, False, False, True)
