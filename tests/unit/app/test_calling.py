"""`Middleware.calling`: right around the handler, where it runs."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from mainspring import NO_RETRY, Context, Mainspring, Middleware


class Noting(Middleware):
    def __init__(self, name: str, seen: list[str]) -> None:
        self.name = name
        self.seen = seen
        self.threads: list[int] = []

    @contextmanager
    def calling(self, ctx: Context) -> Iterator[None]:
        self.threads.append(threading.get_ident())
        self.seen.append(f"{self.name} before {ctx.group}")
        try:
            yield
        except LookupError as error:
            self.seen.append(f"{self.name} saw {error}")
            raise
        finally:
            self.seen.append(f"{self.name} after {ctx.group}")


class Refusing(Middleware):
    def calling(self, ctx: Context) -> None:  # type: ignore[override]
        raise PermissionError(f"{ctx.group} may not run")


async def test_the_first_is_the_outermost_around_coroutines_and_plain_functions() -> None:
    seen: list[str] = []
    app = Mainspring("memory://", middleware=[Noting("one", seen), Noting("two", seen)])

    @app.consumer("a")
    def plain(_: int) -> None:
        seen.append("plain")

    @app.consumer("b")
    async def coroutine(_: int) -> None:
        seen.append("coroutine")

    with app.testing() as kit:
        await app.publish("a", 1)
        await kit.drain()
        await app.publish("b", 1)
        await kit.drain()

    assert seen == [
        "one before plain",
        "two before plain",
        "plain",
        "two after plain",
        "one after plain",
        "one before coroutine",
        "two before coroutine",
        "coroutine",
        "two after coroutine",
        "one after coroutine",
    ]


async def test_it_is_entered_in_the_thread_of_a_plain_function() -> None:
    middleware = Noting("one", [])
    app = Mainspring("memory://", middleware=[middleware])
    ran: list[int] = []

    @app.consumer("a")
    def plain(_: int) -> None:
        ran.append(threading.get_ident())

    with app.testing() as kit:
        await app.publish("a", 1)
        await kit.drain()

    assert middleware.threads == ran
    assert ran != [threading.get_ident()]


@pytest.mark.parametrize("blocking", [True, False])
async def test_it_sees_what_the_handler_raises(blocking: bool) -> None:
    seen: list[str] = []
    app = Mainspring("memory://", middleware=[Noting("one", seen)])

    def plain(_: int) -> None:
        raise LookupError("nothing there")

    async def coroutine(_: int) -> None:
        raise LookupError("nothing there")

    app.consumer("a", group="g", retry=NO_RETRY)(plain if blocking else coroutine)

    with app.testing() as kit, kit.expect_dead("g", error=LookupError):
        await app.publish("a", 1)
        await kit.drain()

    assert seen == ["one before g", "one saw nothing there", "one after g"]


async def test_one_that_refuses_fails_the_attempt_and_those_around_it_are_left() -> None:
    seen: list[str] = []
    app = Mainspring("memory://", middleware=[Noting("one", seen), Refusing()])

    @app.consumer("a", retry=NO_RETRY)
    async def handler(_: int) -> None:
        seen.append("ran")

    with app.testing() as kit, kit.expect_dead(handler, error=PermissionError):
        await app.publish("a", 1)
        await kit.drain()

    assert seen == ["one before handler", "one after handler"]
