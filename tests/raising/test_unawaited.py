"""What a handler returns instead of awaiting it has not run: it is never counted as done."""

import asyncio
import functools
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Annotated, Any

import pytest

from mainspring import BatchContext, Context, Depends, Mainspring, Middleware
from mainspring.app.consume.middleware import Next
from mainspring.model.views import RunView
from mainspring.runtime.schedules.plan import CODE, CannotPlan, read_plan
from tests.raising.unawaited import HANDLERS, all_forgotten, all_passed_on, passed_on, ran, work

SAID = "which was not awaited, so it did not run: write `return await …` in an `async def`"


@pytest.fixture(autouse=True)
def _nothing_has_run() -> None:
    ran.clear()


async def run_of(app: Mainspring) -> RunView:
    async with app.worker():
        await app.publish("work", "one")
        async with asyncio.timeout(60):
            while not (runs := await app.messages.runs()):
                await asyncio.sleep(0.005)
    return runs[0]


def on(path: Path, handler: Any, **options: Any) -> Mainspring:
    app = Mainspring(f"sqlite:///{path}/work.db", name="work", keep="all")
    app.consumer("work", group="work", retry="none", **options)(handler)
    return app


@pytest.mark.parametrize("handler", HANDLERS.values(), ids=HANDLERS)
@pytest.mark.parametrize("transactional", [False, True])
async def test_what_was_not_awaited_is_a_failure_that_says_what_to_write(
    tmp_path: Path, handler: Any, transactional: bool
) -> None:
    run = await run_of(on(tmp_path, handler, **({"transactional": True} if transactional else {})))

    assert (run.status, ran) == ("dead", [])
    assert SAID in (run.error or "")


async def test_what_a_process_did_not_await_is_a_failure(tmp_path: Path) -> None:
    run = await run_of(on(tmp_path, passed_on, cpu=True))

    assert run.status == "dead"
    assert SAID in (run.error or "")


@pytest.mark.parametrize("handler", [all_passed_on, all_forgotten])
async def test_what_a_batch_did_not_await_is_a_failure(tmp_path: Path, handler: Any) -> None:
    run = await run_of(on(tmp_path, handler, batch=1))

    assert (run.status, ran) == ("dead", [])
    assert SAID in (run.error or "")


@pytest.mark.parametrize("handler", HANDLERS.values(), ids=HANDLERS)
async def test_a_test_is_told_as_well(tmp_path: Path, handler: Any) -> None:
    app = on(tmp_path, handler)
    async with app.testing() as kit:
        with kit.expect_dead("work", error=SAID):
            await app.publish("work", "one")
            await kit.drain()

    assert ran == []


async def test_an_occurrence_of_a_schedule_is_a_message_like_any_other(tmp_path: Path) -> None:
    app = Mainspring(f"sqlite:///{tmp_path}/work.db", name="work")

    def nightly() -> object:
        return work("night")

    app.recurring("0 3 * * *", retry="none")(nightly)
    async with app.testing() as kit:
        with kit.expect_dead("nightly", error=SAID):
            await kit.advance("25h")

    assert ran == []


async def test_a_partial_an_object_and_a_wrapped_function_are_awaited(tmp_path: Path) -> None:
    class Worker:
        async def __call__(self, message: str) -> None:
            await work(message)

    @functools.wraps(work)
    def wrapped(message: str) -> Any:
        return work(message)

    app = Mainspring(f"sqlite:///{tmp_path}/work.db", name="work", keep="all")
    handlers: tuple[Any, ...] = (functools.partial(work), Worker(), wrapped)
    for number, handler in enumerate(handlers):
        app.consumer("work", group=f"work{number}")(handler)
    async with app.testing() as kit:
        await app.publish("work", "one")
        await kit.drain()

    assert ran == ["one"] * 3


async def test_middleware_that_forgets_to_await_the_rest_is_a_failure(tmp_path: Path) -> None:
    class Forgetful(Middleware):
        async def handling(self, _ctx: Context, call_next: Next) -> object:
            return call_next()

    run = await run_of(on(tmp_path, work, middleware=[Forgetful()]))

    assert (run.status, ran) == ("dead", [])
    assert SAID in (run.error or "")


async def allowed(ctx: Context) -> bool:
    ran.append(f"asked for {ctx.message}")
    return True


def guard(ctx: Context) -> Any:
    return allowed(ctx)


@pytest.mark.parametrize("threaded", [False, True])
async def test_a_provider_that_was_not_awaited_fails_its_handler(tmp_path: Path, threaded: bool) -> None:
    async def handle(message: str, ok: Annotated[bool, Depends(guard)]) -> None:
        ran.append(message)

    def handle_in_thread(message: str, ok: Annotated[bool, Depends(guard)]) -> None:
        ran.append(message)

    run = await run_of(on(tmp_path, handle_in_thread if threaded else handle))

    assert (run.status, ran) == ("dead", [])
    assert f"the provider {__name__}.guard returned" in (run.error or "")


class Lazy:
    """A resolver whose blocking side is async all the same."""

    serves_functions = True

    def marks(self, annotation: Any) -> bool:
        return annotation is bool

    @asynccontextmanager
    async def scope(self, ctx: Context) -> AsyncIterator[Any]:
        async def get(_: Any) -> Any:
            return allowed(ctx)

        yield get

    @contextmanager
    def scope_blocking(self, ctx: Context) -> Iterator[Any]:
        yield lambda _: allowed(ctx)


@pytest.mark.parametrize("threaded", [False, True])
async def test_a_resolver_that_was_not_awaited_fails_its_handler(tmp_path: Path, threaded: bool) -> None:
    app = Mainspring(f"sqlite:///{tmp_path}/work.db", name="work", keep="all", resolver=Lazy())

    async def handle(message: str, ok: bool) -> None:
        ran.append(message)

    def handle_in_thread(message: str, ok: bool) -> None:
        ran.append(message)

    app.consumer("work", group="work", retry="none")(handle_in_thread if threaded else handle)
    run = await run_of(app)

    assert (run.status, ran) == ("dead", [])
    assert "the resolver for <class 'bool'> returned" in (run.error or "")


async def test_a_task_that_was_returned_does_not_go_on_beside_the_next_attempt(tmp_path: Path) -> None:
    tasks: list[asyncio.Task[None]] = []

    async def begin(message: str) -> object:
        tasks.append(asyncio.create_task(work(message)))
        return tasks[0]

    run = await run_of(on(tmp_path, begin))

    assert (run.status, tasks[0].cancelled(), ran) == ("dead", True, [])


def test_a_function_that_tells_holidays_is_no_coroutine() -> None:
    async def closed(_: date) -> bool:
        return True

    layers = {"rhythm": "0 3 * * *", "holidays": [f"{CODE}closed"]}
    plan = read_plan(layers, {"holidays": (closed,)})

    with pytest.raises(CannotPlan, match="which was not awaited"):
        plan.next(datetime(2026, 1, 1, tzinfo=UTC))


async def forgets_to_publish(message: str, ctx: Context) -> None:
    ctx.publish("later", message)  # type: ignore[unused-coroutine]


async def forgets_to_join(message: str, ctx: Context) -> None:
    ctx.join([], then=forgets_to_publish)  # type: ignore[unused-coroutine]


def publishes_in_a_thread(message: str, ctx: Context) -> None:
    ctx.publish("later", message)  # type: ignore[unused-coroutine]


@pytest.mark.parametrize("transactional", [False, True])
@pytest.mark.parametrize(
    ("handler", "said"),
    [
        (
            forgets_to_publish,
            (
                "TypeError: the handler called ctx.publish('later', …) and did not await it, so nothing was stored: "
                "write `await ctx.publish(…)`, or `ctx.sync.publish(…)` in a plain function"
            ),
        ),
        (forgets_to_join, "the handler called ctx.join([], …) and did not await it"),
        (publishes_in_a_thread, "or `ctx.sync.publish(…)` in a plain function"),
    ],
)
async def test_a_publish_that_was_not_awaited_is_a_failure(
    tmp_path: Path, handler: Any, said: str, transactional: bool
) -> None:
    run = await run_of(on(tmp_path, handler, **({"transactional": True} if transactional else {})))

    assert run.status == "dead"
    assert said in (run.error or "")


async def test_a_publish_of_a_batch_that_was_not_awaited_fails_the_batch(tmp_path: Path) -> None:
    async def handler(messages: list[str], ctx: BatchContext) -> None:
        ctx.contexts[0].publish("later", messages[0])  # type: ignore[unused-coroutine]

    for options in ({}, {"transactional": True}):
        (path := tmp_path / str(len(options))).mkdir()
        run = await run_of(on(path, handler, batch=5, **options))

        assert run.status == "dead"
        assert "ctx.publish('later', …) and did not await it" in (run.error or "")


async def test_a_test_is_told_of_a_publish_that_was_not_awaited(tmp_path: Path) -> None:
    app = on(tmp_path, forgets_to_publish)
    async with app.testing() as kit:
        with kit.expect_dead("work", error="did not await it"):
            await app.publish("work", "one")
            await kit.drain()


async def test_a_publish_in_a_task_that_outlives_the_run_is_no_failure(tmp_path: Path) -> None:
    tasks: list[asyncio.Task[Any]] = []

    async def handler(message: str, ctx: Context) -> None:
        tasks.append(asyncio.create_task(ctx.publish("later", message)))
        await asyncio.gather(ctx.publish("later", "in a gather"), asyncio.wait_for(ctx.publish("later", "in time"), 60))
        tasks.append(asyncio.create_task(ctx.publish("later", message)))

    app = on(tmp_path, handler)
    async with app.worker():
        await app.publish("work", "one")
        async with asyncio.timeout(60):
            while not (runs := await app.messages.runs()):
                await asyncio.sleep(0.005)
        await asyncio.gather(*tasks)
        assert runs[0].status == "done"
        assert len(await app.messages.list("parked", topic="later")) == 4
