"""Checks of the application's own: what they return, raise or never return, beside the built-in ones."""

import asyncio
import functools
import inspect
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mainspring import Check, Health, Mainspring, errors
from mainspring.app.observe import custom_checks
from mainspring.model.health import ORDER, Status
from tests.integration.app.measuring import of, scraped


@pytest.fixture
def app() -> Mainspring:
    return Mainspring("memory://", name="shop")


async def found(app: Mainspring, name: str) -> Check:
    [check] = [check for check in (await app.health()).checks if check.name == name]
    return check


UNWRITABLE = "TypeError: Encoding objects of type object is unsupported"


def broken() -> None:
    raise ConnectionError("at https://ann:hunter2@stripe.test")


@pytest.mark.parametrize(
    ("function", "status", "summary"),
    [
        (lambda: None, "healthy", "ok"),
        (lambda: True, "healthy", "ok"),
        (lambda: False, "unhealthy", "it returned False"),
        (lambda: "healthy", "healthy", ""),
        (lambda: "degraded", "degraded", "it returned 'degraded'"),
        (lambda: Check("other", "degraded", "slow", {"ms": 900}), "degraded", "slow"),
        (broken, "unhealthy", "ConnectionError: at https://…@stripe.test"),
        (
            lambda: 3,
            "unhealthy",
            "it returned 3: return None, True, False, 'healthy', 'degraded', 'unhealthy' or a Check",
        ),
        (
            lambda: Check("x", "ok"),  # type: ignore[arg-type]
            "unhealthy",
            "it returned a Check with status='ok': write 'healthy', 'degraded' or 'unhealthy'",
        ),
        (
            lambda: Check("x", ["healthy"]),  # type: ignore[arg-type]
            "unhealthy",
            "it returned a Check with status=['healthy']: write 'healthy', 'degraded' or 'unhealthy'",
        ),
        (
            lambda: Check("x", "healthy", None),  # type: ignore[arg-type]
            "unhealthy",
            "it returned a Check with summary=None: write text",
        ),
        (
            lambda: Check("x", "healthy", "fine", {"client": object()}),
            "unhealthy",
            f"it returned a Check with data that is not JSON ({UNWRITABLE}): write text, numbers, lists and dicts",
        ),
        (
            lambda: Check("x", "healthy", "fine", ["a"]),  # type: ignore[arg-type]
            "unhealthy",
            "it returned a Check with data=['a']: write a dict",
        ),
        (
            lambda: Check("x", "degraded", "cannot log in: postgresql://bob:hunter2@h/db"),
            "degraded",
            "cannot log in: postgresql://…@h/db",
        ),
        (lambda: Check("x", "healthy", "a \udc80 b"), "healthy", "a \\udc80 b"),
    ],
)
@pytest.mark.parametrize("awaits", [False, True])
async def test_what_a_function_returns_or_raises_is_the_result(
    app: Mainspring, function: Callable[[], Any], status: str, summary: str, awaits: bool
) -> None:
    async def later() -> Any:
        await asyncio.sleep(0)
        return function()

    app.health.check("stripe", later if awaits else function)

    check = await found(app, "stripe")

    assert (check.name, check.status, check.summary, check.tags) == ("stripe", status, summary, ())
    assert check.seconds is not None


async def test_the_data_of_a_check_is_json_without_its_secrets(app: Mainspring) -> None:
    data = {"url": "redis://ann:hunter2@cache", "login": {"password": "hunter2"}, 1: (2, float("nan"))}
    app.health.check("cache", lambda: Check("x", "healthy", "", data))  # type: ignore[arg-type]

    shown = (await found(app, "cache")).data

    assert shown == {"url": "redis://…@cache", "login": {"password": "…"}, "1": [2, None]}


async def check_bank() -> Status:
    await asyncio.sleep(0)
    return "degraded"


async def test_a_plain_function_that_returns_an_awaitable_is_awaited(app: Mainspring) -> None:
    @functools.wraps(check_bank)
    def traced() -> Any:
        return check_bank()

    app.health.check("bank", lambda: asyncio.wait_for(check_bank(), 5))
    app.health.check("traced", traced)

    assert [(await found(app, name)).summary for name in ("bank", "traced")] == ["it returned 'degraded'"] * 2


async def test_an_awaitable_of_a_plain_function_has_the_same_timeout(app: Mainspring) -> None:
    app.health.check("bank", lambda: asyncio.Event().wait(), timeout="10ms")

    assert [(await found(app, "bank")).summary for _ in range(2)] == ["no result within 10ms"] * 2


async def test_a_coroutine_that_comes_too_late_is_closed(app: Mainspring) -> None:
    go_on, late = threading.Event(), check_bank()

    def hang() -> Any:
        go_on.wait(30)
        return late

    app.health.check("bank", hang, timeout="10ms")
    await found(app, "bank")
    go_on.set()

    async with asyncio.timeout(10):
        while inspect.getcoroutinestate(late) != inspect.CORO_CLOSED:
            await asyncio.sleep(0.005)


async def test_a_check_that_is_degraded_degrades_all_and_breaks_no_other(app: Mainspring) -> None:
    app.health.check("one", broken)
    app.health.check("two", lambda: "degraded")

    health = await app.health()

    assert health.status == "unhealthy"
    assert {"one": "unhealthy", "two": "degraded", "storage": "healthy"}.items() <= {
        each.name: each.status for each in health.checks
    }.items()


async def test_a_decorated_function_stays_what_it_was(app: Mainspring) -> None:
    @app.health.check("stripe", timeout="2s", tags=["ready"])
    async def stripe() -> bool:
        return False

    assert await stripe() is False
    assert (await found(app, "stripe")).tags == ("ready",)


async def test_plain_functions_run_in_a_thread_and_all_at_once(app: Mainspring) -> None:
    together = threading.Barrier(3, timeout=5)
    threads: list[threading.Thread] = []

    def meet() -> None:
        threads.append(threading.current_thread())
        together.wait()

    for number in range(3):
        app.health.check(f"check-{number}", meet)

    health = await app.health()

    assert health.status == "healthy"
    assert threading.main_thread() not in threads


async def test_a_function_that_hangs_is_named_and_not_called_again_until_it_ends(app: Mainspring) -> None:
    calls: list[int] = []
    go_on, ended = threading.Event(), threading.Event()

    def hang() -> None:
        calls.append(1)
        if len(calls) == 1:
            go_on.wait(30)
            ended.set()

    app.health.check("stripe", hang, timeout="20ms")

    first, second = await found(app, "stripe"), await found(app, "stripe")
    go_on.set()
    await asyncio.to_thread(ended.wait)
    async with asyncio.timeout(10):
        while (third := await found(app, "stripe")).status != "healthy":
            await asyncio.sleep(0.005)

    assert (first.status, first.summary) == ("unhealthy", "no result within 20ms")
    assert second.summary == "no result within 20ms, and an earlier call still runs"
    assert third.summary == "ok"
    assert len(calls) == 2


async def test_a_coroutine_that_ignores_its_cancellation_keeps_nobody_waiting(app: Mainspring) -> None:
    go_on = asyncio.Event()

    async def stubborn() -> None:
        while not go_on.is_set():
            try:
                await go_on.wait()
            except asyncio.CancelledError:
                continue

    app.health.check("stripe", stubborn, timeout="10ms")

    told = [(await found(app, "stripe")).summary for _ in range(2)]
    go_on.set()

    assert told == ["no result within 10ms", "no result within 10ms, and an earlier call still runs"]


async def test_a_cancelled_caller_takes_its_checks_along(app: Mainspring) -> None:
    begun, cancelled = asyncio.Event(), asyncio.Event()

    async def wait() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    app.health.check("stripe", wait)
    asking = asyncio.create_task(app.health())
    await begun.wait()
    asking.cancel()

    async with asyncio.timeout(5):
        await cancelled.wait()


def names(health: Health) -> set[str]:
    return {each.name for each in health.checks}


async def test_tags_choose_the_checks_and_the_built_in_ones_are_for_ready(app: Mainspring) -> None:
    app.health.check("plain", lambda: None)
    app.health.check("ready", lambda: None, tags=["ready", "payments"])
    app.health.check("live", lambda: None, tags=["live"])

    everything, ready = await app.health(), await app.health(tags=["ready"])
    live, payments = await app.health(tags=["live"]), await app.health(tags=["payments"])

    assert {"plain", "ready", "live", "storage"} <= names(everything)
    assert names(ready) & {"plain", "ready", "live", "storage"} == {"ready", "storage"}
    assert (names(live), names(payments)) == ({"live"}, {"ready"})


async def test_a_tag_that_no_check_has_is_told_apart_from_all_being_well(app: Mainspring) -> None:
    app.health.check("stripe", lambda: None, tags=["payments"])

    with pytest.raises(errors.BadOption) as told:
        await app.health(tags=["ready", "payment"])
    with pytest.raises(errors.BadOption, match=r"tags=\[\] chooses no health check: leave it out for all"):
        await app.health(tags=[])

    assert str(told.value) == (
        "tags has 'payment', and no health check here does. Did you mean 'payments'? Known: 'live', 'payments', 'ready'"
    )
    live = await app.health(tags=["live"])
    assert (live.status, live.checks) == ("healthy", ())


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"name": "storage"}, errors.Conflict, "is the name of a built-in health check"),
        ({"name": "version"}, errors.Conflict, "is the name of a built-in health check"),
        ({"name": "two words"}, errors.BadOption, "health check"),
        ({"timeout": "1m"}, errors.BadOption, "timeout='1m' is out of bounds: it must be between 1ms and 8s"),
        ({"tags": "ready"}, errors.BadOption, "write a list, as in \\['ready'\\]"),
        ({"tags": [1]}, errors.BadOption, "must be words"),
        ({"function": "stripe"}, errors.BadSignature, "must be a function without parameters, not 'stripe'"),
        ({"function": lambda order: None}, errors.BadSignature, "missing a required argument: 'order'"),
    ],
)
def test_a_wrong_registration_is_refused_where_it_is_made(
    app: Mainspring, arguments: dict[str, Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        app.health.check(**{"name": "stripe", "function": lambda: None, **arguments})


def test_a_wrong_decorator_is_refused_before_its_function(app: Mainspring) -> None:
    with pytest.raises(errors.BadOption, match="timeout"):
        app.health.check("stripe", timeout="soon")


def test_two_checks_have_two_names(app: Mainspring) -> None:
    app.health.check("stripe", lambda: None)

    with pytest.raises(errors.Conflict, match="two health checks named 'stripe'"):
        app.health.check("stripe", lambda: None)


def test_blocking_code_gets_the_same_checks(app: Mainspring) -> None:
    app.health.check("stripe", broken)

    health = app.sync.health()

    assert health.status == "unhealthy"
    assert "stripe" in names(health)


async def test_a_coroutine_is_told_to_await(app: Mainspring) -> None:
    with pytest.raises(errors.Misuse, match=r"app\.sync\.health\(\) would block .*write `await app\.health\(\)`"):
        app.sync.health()


def test_a_blocking_test_calls_them_in_place(app: Mainspring) -> None:
    app.health.check("stripe", broken)
    app.health.check("bank", lambda: "degraded")

    with app.testing():
        health = app.sync.health()

    assert {each.name: each.status for each in health.checks if each.name in ("stripe", "bank")} == {
        "stripe": "unhealthy",
        "bank": "degraded",
    }


async def test_limits_are_set_once_for_every_call(app: Mainspring) -> None:
    from mainspring import HealthLimits

    app.health.limits = HealthLimits(backlog=(-1, 10))

    assert (await found(app, "backlog")).status == "degraded"


async def health_metrics(app: Mainspring) -> dict[str, float]:
    return of(scraped(await app.metrics()), "mainspring_health")


async def test_metrics_do_not_wait_for_a_slow_check_and_report_its_result_when_it_ends(
    app: Mainspring, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(custom_checks, "PATIENCE", 0.01)
    go_on, calls = asyncio.Event(), 0

    async def slow() -> Status:
        nonlocal calls
        calls += 1
        await go_on.wait()
        return "degraded"

    app.health.check("bank", slow, tags=["payments"])
    async with app:
        first, second = await health_metrics(app), await health_metrics(app)
        go_on.set()
        async with asyncio.timeout(10):
            while not (third := await health_metrics(app)):
                await asyncio.sleep(0)
        again = await health_metrics(app)

    assert first == second == {}
    assert third == again == {"bank": 1}
    assert calls == 1


async def test_metrics_run_a_check_again_whose_result_is_old(app: Mainspring, monkeypatch: pytest.MonkeyPatch) -> None:
    results: Iterator[Status] = iter(ORDER)
    app.health.check("bank", lambda: next(results))
    async with app:
        first, second = await health_metrics(app), await health_metrics(app)
        monkeypatch.setattr(custom_checks, "FRESH", 0.0)
        third = await health_metrics(app)
        health = await app.health()

    assert [each["bank"] for each in (first, second, third)] == [0, 0, 1]
    assert health.status == "unhealthy"


async def test_metrics_reuse_what_health_has_just_found(app: Mainspring) -> None:
    results: Iterator[Status] = iter(ORDER[1:])
    app.health.check("bank", lambda: next(results))
    async with app:
        await app.health()

        assert await health_metrics(app) == {"bank": 1}


def test_closing_the_blocking_face_ends_a_slow_check(app: Mainspring, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(custom_checks, "PATIENCE", 0.01)
    ended = threading.Event()

    async def slow() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    app.health.check("bank", slow)
    app.sync.metrics()
    app.sync.close()

    assert ended.wait(10)
