import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from mainspring import NO_RETRY, Context, Mainspring, Receipt, exponential
from mainspring.app.config import Options
from mainspring.app.consume.consumer import Consumed, Registration, registration_of
from mainspring.app.consume.consumers import Consumers
from mainspring.app.message.catalogue import Catalogue
from mainspring.model.errors import BadOption, BadSignature, Conflict
from mainspring.timing.backoff import MESSAGES, OUTBOX, RECURRING
from tests.unit.app.stage import MESSAGE, Desk

HERE = __name__


@dataclass
class OrderPlaced:
    id: int


@dataclass
class Unregistered:
    id: int


async def receipts(order: OrderPlaced, ctx: Context) -> None:
    """Send a receipt."""


def count(order: dict[str, Any]) -> int:
    return len(order)


def register(function: Callable[..., Any], *topics: Any, **options: Any) -> Registration:
    catalogue = Catalogue()
    catalogue.register(OrderPlaced, "orders.placed")
    return Consumers(catalogue, Options()).register(function, topics, options)


def test_the_defaults_of_an_async_consumer() -> None:
    made = register(receipts, OrderPlaced)

    assert (made.group, made.topics, made.name) == ("receipts", ("orders.placed",), f"{HERE}.receipts")
    assert (made.retry, made.timeout, made.keep) == (MESSAGES, timedelta(minutes=30), "failures")
    assert (made.threaded, made.concurrency) == (False, 100)


def test_the_defaults_of_a_plain_function() -> None:
    made = register(count, "orders.*")

    assert (made.threaded, made.concurrency) == (True, 10)


def test_every_option_is_read() -> None:
    policy = exponential("2s", attempts=3)

    made = register(count, "a", "b.#", group="analytics", retry=policy, timeout="5s", concurrency=3, keep="all")

    assert (made.group, made.topics, made.retry) == ("analytics", ("a", "b.#"), policy)
    assert (made.timeout, made.concurrency, made.keep) == (timedelta(seconds=5), 3, "all")


def test_a_retry_preset_is_named() -> None:
    assert register(count, "a", retry="outbox").retry is OUTBOX
    assert register(count, "a", retry="none").retry is NO_RETRY


def test_without_topics_the_payloads_type_decides() -> None:
    assert register(receipts).topics == ("orders.placed",)


def test_a_topic_named_twice_is_one_topic() -> None:
    assert register(count, "a", "a", OrderPlaced, "orders.placed").topics == ("a", "orders.placed")


def test_what_is_sent_straight_goes_under_the_most_telling_topic() -> None:
    assert register(receipts, "orders.*").topic == "orders.placed"
    assert register(count, "orders.*", "orders.shipped").topic == "orders.shipped"
    assert register(count, "orders.*").topic == "count"


def test_a_wrapper_that_passes_a_coroutine_on_is_async() -> None:
    @functools.wraps(receipts)
    def wrapper(*args: Any) -> Any:
        return receipts(*args)

    assert not register(wrapper).threaded


def test_an_object_with_an_async_call_is_async() -> None:
    class Handler:
        async def __call__(self, order: OrderPlaced) -> None: ...

    assert not register(Handler(), group="objects").threaded


def test_the_runtime_gets_everything_compiled() -> None:
    made = register(count, "orders.*", concurrency=3, retry="none")

    handler = made.handler(Desk())

    assert (handler.group, handler.threaded, handler.concurrency) == ("count", True, 3)
    assert (handler.retry, handler.timeout, handler.keep) == (NO_RETRY, timedelta(minutes=30), "failures")


def test_the_database_is_told_names_as_they_are_written() -> None:
    declared = register(count, "orders.*", timeout="90s").declaration("shop")

    assert (declared.group, declared.app, declared.patterns) == ("count", "shop", ("orders.*",))
    assert declared.handler == f"{HERE}.count"
    assert declared.options == {
        "retry": "exponential",
        "timeout": "1m 30s",
        "concurrency": "10",
        "keep": "failures",
        "kind": "thread",
    }


def other(order: OrderPlaced) -> None:
    pass


@pytest.mark.parametrize(
    ("function", "topics", "options", "message"),
    [
        (count, ("a",), {"group": "a/b"}, "group='a/b' has a '/': use '.', '-' or '_'"),
        (
            count,
            ("a",),
            {"retry": "outbx"},
            (
                "retry='outbx' is neither a policy, as exponential('1s', attempts=5), nor one of 'messages', 'outbox', "
                "'recurring', 'deferred', 'none'. Did you mean 'outbox'?"
            ),
        ),
        (
            count,
            ("a",),
            {"retry": 5},
            (
                "retry=5 is a number, not a policy: write retry=exponential(attempts=5), which counts the first "
                "attempt too, or one of 'messages', 'outbox', 'recurring', 'deferred', 'none'"
            ),
        ),
        (
            count,
            ("a",),
            {"timeout": 30},
            "timeout=30 has no unit: write a timedelta or text like '30s', '15m', '1h30m', '2d'",
        ),
        (count, ("a",), {"timeout": "0s"}, "timeout='0s' is out of bounds: it must be at least 1ms"),
        (count, ("a",), {"concurrency": 0}, "concurrency=0 must be a whole number from 1 to 10,000"),
        (count, ("a",), {"keep": "some"}, "keep='some' is not one of 'all', 'failures', 'none'."),
        (count, ("orders*",), {}, "topic pattern 'orders*': `*` stands for one whole segment, as in 'orders.*'"),
        (count, (Unregistered,), {}, "Unregistered has no topic: put @app.message('your.topic') above it"),
        (
            count,
            (5,),
            {},
            "a consumer takes topics and message types, not 5: write @app.consumer('orders.placed')",
        ),
        (
            count,
            (),
            {},
            (
                f"{HERE}.count has no topic: name one, @app.consumer('orders.placed'), or annotate its payload with a "
                "type that has @app.message(topic)"
            ),
        ),
        (
            functools.partial(count),
            ("a",),
            {},
            (
                f"functools.partial({HERE}.count) has no name of its own to be its group: give one, "
                "@app.consumer(…, group='receipts')"
            ),
        ),
    ],
)
def test_an_option_that_cannot_be_meant_is_named(
    function: Any, topics: tuple[Any, ...], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(BadOption) as refused:
        register(function, *topics, **options)

    assert str(refused.value) == message


def test_a_lambda_has_no_name_to_be_its_group() -> None:
    with pytest.raises(BadOption, match="has no name of its own to be its group"):
        register(lambda order: order, "a")


def test_something_that_cannot_be_called_is_refused() -> None:
    with pytest.raises(BadSignature, match=r"^@app\.consumer\(…\) goes above a function, not 5$"):
        register(5, "a")  # type: ignore[arg-type]


def test_an_unknown_option_is_refused_before_the_function_is_seen() -> None:
    with pytest.raises(BadOption) as refused:
        Mainspring("memory://").consumer("a", concurency=5)  # type: ignore[call-arg]

    assert str(refused.value) == (
        "@app.consumer(…) has no option 'concurency'. Did you mean 'concurrency'? It accepts batch, breaker, "
        "concurrency, cpu, global_concurrency, group, keep, key_concurrency, key_rate, linger, middleware, on_failure, "
        "ordered, pending_limit, rate, retry, timeout, transactional, when_full"
    )


def test_a_group_belongs_to_one_consumer() -> None:
    app = Mainspring("memory://")
    app.consumer("a", group="one")(count)

    with pytest.raises(Conflict) as refused:
        app.consumer("b", group="one")(other)

    assert str(refused.value) == (
        f"group 'one' already belongs to {HERE}.count: give {HERE}.other another group=…, since two consumers of one "
        "group would each get half of its messages"
    )


def test_one_function_may_serve_several_groups() -> None:
    app = Mainspring("memory://")

    @app.consumer("b", group="second")
    @app.consumer("a", group="first")
    def handler(order: dict[str, Any]) -> None: ...

    assert handler.group == "second"
    assert not isinstance(handler.function, Consumed)


def test_a_module_loaded_anew_replaces_its_consumer() -> None:
    app = Mainspring("memory://")
    program = "@app.consumer('a')\ndef handler(order): ...\n"

    for cell in ("shop.py", "shop.py", "another cell"):
        exec(compile(program, cell, "exec"), {"app": app, "__name__": "shop"})

    assert [each.group for each in app._code.consumers] == ["handler"]


def test_a_name_used_twice_in_one_module_is_a_conflict() -> None:
    app = Mainspring("memory://")
    program = "@app.consumer('a')\ndef handler(order): ...\n"

    with pytest.raises(Conflict, match=r"group 'handler' already belongs to shop\.handler"):
        exec(compile(program * 2, "shop.py", "exec"), {"app": app, "__name__": "shop"})


def test_two_closures_of_one_function_are_two_consumers() -> None:
    app = Mainspring("memory://")

    def make(topic: str) -> None:
        @app.consumer(topic)
        def handler(order: dict[str, Any]) -> str:
            return topic

    make("a")
    with pytest.raises(Conflict, match="group 'handler' already belongs to"):
        make("b")


async def test_the_decorated_function_stays_what_it_was() -> None:
    app = Mainspring("memory://")
    app.message("orders.placed")(OrderPlaced)

    consumed = app.consumer()(receipts)

    assert consumed.__name__ == "receipts"
    assert consumed.__doc__ == "Send a receipt."
    assert inspect.signature(consumed) == inspect.signature(receipts)
    assert repr(consumed) == f"<consumer {HERE}.receipts, group 'receipts'>"
    assert consumed.topics == ("orders.placed",)
    assert app.consumer("a")(count)({"a": 1}) == 1


async def test_sending_goes_to_this_consumer_alone() -> None:
    desk: Any = Desk()
    consumed = Consumed(count, register(count, "orders.*"), lambda: desk)

    receipt = await consumed.send({"id": 1}, delay="1h")

    assert receipt == Receipt(MESSAGE, "stored")
    assert desk.sent == [("count", {"id": 1}, {"delay": "1h"})]


def test_consumers_and_queues_without_a_policy_have_the_apps_own() -> None:
    app = Mainspring("memory://", retry="none")

    @app.consumer("orders.placed")
    async def plain(_: dict[str, Any]) -> None: ...

    @app.consumer("orders.placed", retry="outbox")
    async def own(_: dict[str, Any]) -> None: ...

    @app.recurring("0 * * * *")
    async def report() -> None: ...

    found = [registration.retry for each in (plain, own, report) if (registration := registration_of(each))]
    assert found == [NO_RETRY, OUTBOX, RECURRING]


def test_the_retry_policy_of_an_app_is_read_as_that_of_a_consumer() -> None:
    assert Mainspring("memory://").options.retry is MESSAGES
    with pytest.raises(BadOption, match="retry='outbx' is neither a policy"):
        Mainspring("memory://", retry="outbx")
    with pytest.raises(BadOption, match="retry=3 is a number, not a policy"):
        Mainspring("memory://", retry=3)  # type: ignore[arg-type]
