"""A function in the place of a URL: it tells where the database is, and by which credentials."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future

from mainspring.model.errors import StorageUnavailable

UrlFunction = Callable[[], str | Awaitable[str]]
_PATIENCE = 10.0


def told(url: UrlFunction) -> object:
    """What the function says now. One that is to be awaited is, on a loop and in a thread of its own."""
    answer = url()
    if not inspect.isawaitable(answer):
        return answer
    said: Future[str] = Future()

    async def awaited() -> str:
        return await answer

    def work() -> None:
        try:
            said.set_result(asyncio.run(awaited()))
        except BaseException as error:  # noqa: BLE001 - it is raised where it is waited for
            said.set_exception(error)

    threading.Thread(target=work, name="mainspring-url", daemon=True).start()
    try:
        return said.result(_PATIENCE)
    except TimeoutError:
        raise StorageUnavailable(f"the function that gives the URL has not answered for {_PATIENCE:g} s") from None
