"""What else a user writes may raise: policies, filters, hooks, middleware, providers. None of it keeps a verdict."""

import asyncio
import logging
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Annotated, Any, NoReturn

import pytest

from mainspring import Context, Depends, Mainspring, Middleware, ReportErrors, RetryPolicy, SlowHandlers, events
from mainspring.app.consume.middleware import Next
from mainspring.model.views import RunView
from tests.raising.explosives import TEXT, BadStr, Panic

RAISED: list[Callable[[], BaseException]] = [
    lambda: Panic(TEXT),
    lambda: SystemExit(TEXT),
    lambda: KeyboardInterrupt(TEXT),
    lambda: GeneratorExit(TEXT),
    lambda: BadStr(TEXT),
]


@pytest.fixture(params=RAISED, ids=["BaseException", "SystemExit", "KeyboardInterrupt", "GeneratorExit", "bad __str__"])
def raised(request: pytest.FixtureRequest) -> Callable[[], BaseException]:
    """What makes the exception."""
    make: Callable[[], BaseException] = request.param
    return make


@pytest.fixture
def app() -> Mainspring:
    return Mainspring("memory://", name="work", keep="all")


async def runs_of(app: Mainspring, count: int, messages: tuple[str, ...] = ("fine", "fine")) -> list[RunView]:
    """So many runs of these messages, when nothing is in hand any more."""
    async with app.worker() as worker:
        for message in messages:
            await app.publish("work", message)
        async with asyncio.timeout(60):
            while len(runs := await app.messages.runs()) < count or worker.in_hand:
                await asyncio.sleep(0.005)
    return sorted(runs, key=lambda run: run.id)


def failing(app: Mainspring, **options: Any) -> None:
    @app.consumer("work", group="work", concurrency=1, **options)
    async def work(message: str) -> None:
        if message == "bad":
            raise ValueError(TEXT)


def policy(wait: Callable[[int, timedelta], Any]) -> RetryPolicy:
    return RetryPolicy("own", wait)


async def test_a_retry_policy_that_raises_is_named_and_its_message_buried(
    app: Mainspring, raised: Callable[[], BaseException]
) -> None:
    def wait(_attempt: int, _delay: timedelta) -> NoReturn:
        raise raised()

    failing(app, retry=policy(wait))

    bad, fine = await runs_of(app, 2, ("bad", "fine"))

    assert (bad.status, fine.status) == ("dead", "done")
    said = f"ValueError: {TEXT}; its retry policy 'own' failed too, so it is not retried: {type(raised()).__name__}"
    assert (bad.error or "").startswith(said)


@pytest.mark.parametrize("wait", [5, "soon", 0.5])
async def test_a_retry_policy_that_gives_no_time_is_one_that_fails(app: Mainspring, wait: object) -> None:
    failing(app, retry=policy(lambda _attempt, _delay: wait))

    bad, fine = await runs_of(app, 2, ("bad", "fine"))

    assert (bad.status, fine.status) == ("dead", "done")
    assert "its retry policy 'own' failed too" in (bad.error or "")


async def test_a_wait_that_no_calendar_has_is_shortened_to_a_century(app: Mainspring) -> None:
    failing(app, retry=policy(lambda _attempt, _delay: timedelta.max))

    async with app.worker() as worker:
        await app.publish("work", "bad")
        async with asyncio.timeout(60):
            while not (waiting := await app.messages.list("retrying")) or worker.in_hand:
                await asyncio.sleep(0.005)

    assert 90 < (waiting[0].due_at - waiting[0].published_at) / timedelta(days=365) < 110


@pytest.fixture
def filtered(request: pytest.FixtureRequest, raised: Callable[[], BaseException]) -> Iterator[None]:
    """Every handler of every logger raises."""

    class Broken(logging.Handler):
        def filter(self, _record: logging.LogRecord) -> bool:
            raise raised()

    broken = Broken()
    logging.getLogger("mainspring").addHandler(broken)
    yield
    logging.getLogger("mainspring").removeHandler(broken)


@pytest.mark.usefixtures("filtered")
async def test_a_log_filter_that_raises_keeps_no_verdict(
    app: Mainspring, capsys: pytest.CaptureFixture[str], raised: Callable[[], BaseException]
) -> None:
    failing(app, retry="none")

    @app.on(events.Dead)
    def hook(_event: events.Dead) -> NoReturn:
        raise raised()

    runs = await runs_of(app, 3, ("bad", "bad", "fine"))

    assert [run.status for run in runs] == ["dead", "dead", "done"]
    assert "mainspring: a log line was lost, because its filter or handler raised" in capsys.readouterr().err


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_hook_that_raises_is_logged_and_changes_nothing(
    app: Mainspring, raised: Callable[[], BaseException], caplog: pytest.LogCaptureFixture, is_async: bool
) -> None:
    failing(app)
    told = 0

    def hook(_event: events.Completed) -> NoReturn:
        nonlocal told
        told += 1
        raise raised()

    async def later(event: events.Completed) -> NoReturn:
        await asyncio.sleep(0)
        hook(event)

    app.on(events.Completed, later if is_async else hook)

    runs = await runs_of(app, 2)

    assert [run.status for run in runs] == ["done", "done"]
    assert told == 2
    assert ("later" if is_async else "hook") + " failed at Completed(" in caplog.text


async def test_middleware_that_raises_is_a_failure_of_the_attempt(
    app: Mainspring, raised: Callable[[], BaseException]
) -> None:
    class Broken(Middleware):
        async def handling(self, ctx: Context, call_next: Next) -> object:
            if ctx.topic == "work" and ctx.key == "bad":
                raise raised()
            return await call_next()

    failing(app, retry="none", middleware=[Broken()])

    async with app.worker() as worker:
        await app.publish("work", "fine", key="bad")
        await app.publish("work", "fine")
        async with asyncio.timeout(60):
            while len(runs := await app.messages.runs()) < 2 or worker.in_hand:
                await asyncio.sleep(0.005)

    assert sorted(run.status for run in runs) == ["dead", "done"]


async def test_a_report_that_raises_changes_nothing(
    app: Mainspring, raised: Callable[[], BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    def report(*_: object) -> NoReturn:
        raise raised()

    failing(app, retry="none", middleware=[ReportErrors(report), SlowHandlers(None, report=report)])

    runs = await runs_of(app, 2, ("bad", "fine"))

    assert [(run.status, run.error) for run in runs] == [("dead", f"ValueError: {TEXT}"), ("done", None)]
    assert "failed to report" in caplog.text


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_provider_that_raises_is_a_failure_of_the_attempt(
    app: Mainspring, raised: Callable[[], BaseException], is_async: bool
) -> None:
    def provider(ctx: Context) -> int:
        if ctx.message == "bad":
            raise raised()
        return 1

    if is_async:

        @app.consumer("work", group="work", concurrency=1, retry="none")
        async def work(message: str, number: Annotated[int, Depends(provider)]) -> None: ...
    else:

        @app.consumer("work", group="work", concurrency=1, retry="none")
        def work_in_thread(message: str, number: Annotated[int, Depends(provider)]) -> None: ...

    runs = await runs_of(app, 2, ("bad", "fine"))

    assert [run.status for run in runs] == ["dead", "done"]
