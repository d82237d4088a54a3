"""Handlers whose work is still to be done when they have returned; at module level, for the processes among them."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

ran: list[str] = []
"""What has really been done."""


async def work(message: str) -> None:
    ran.append(message)


def passed_on(message: str) -> Awaitable[None]:
    return work(message)


def unwrapped(function: Callable[[str], Any]) -> Callable[[str], Any]:
    """A decorator without functools.wraps."""

    def wrapper(message: str) -> Any:
        return function(message)

    return wrapper


async def forgotten(message: str) -> object:
    return work(message)


def generated(message: str) -> Iterator[None]:
    ran.append(message)
    yield


async def generated_later(message: str) -> AsyncIterator[None]:
    ran.append(message)
    yield


def all_passed_on(messages: list[str]) -> Awaitable[None]:
    return work(messages[0])


async def all_forgotten(messages: list[str]) -> object:
    return [work(message) for message in messages]


HANDLERS: dict[str, Any] = {
    "a plain function that passes a coroutine on": passed_on,
    "a decorator without wraps over async def": unwrapped(work),
    "an async def that forgets to await": forgotten,
    "a decorator without wraps over what yields": unwrapped(generated),
    "a decorator without wraps over what yields, async": unwrapped(generated_later),
}
