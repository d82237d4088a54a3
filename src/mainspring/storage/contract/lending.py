"""Connections lent to handlers: what every storage must have for consumers that are transactional."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, Protocol


class Lender(Protocol):
    """Lends connections, each in a transaction of its own, to one handler at a time.

    They are never those that claim and settle, so that no handler can stop the worker. The transaction is committed
    at the end of the block, and rolled back when the block raises. What is lent is the driver's own connection, one of
    the handles that can be joined. Errors of the driver pass as they are: they are the handler's.
    """

    size: int
    """How many at once; who comes later waits."""

    def lend(self) -> AbstractAsyncContextManager[Any]:
        """A transaction for a coroutine."""
        ...

    def lend_blocking(self) -> AbstractContextManager[Any]:
        """A transaction for a plain function, in its own thread."""
        ...

    def check(self, *, blocking: bool) -> None:
        """Raise BadOption or MissingExtra where nothing of the kind can be lent. Connects to nothing."""
        ...

    async def close(self) -> None:
        """End every connection, also those at work. Idempotent."""
        ...
