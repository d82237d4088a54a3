"""Managing Django's connections around handlers, as Django does around requests."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar

from asgiref.sync import sync_to_async
from django.db import connections

from mainspring.app.consume.context import BatchContext, Context
from mainspring.app.consume.middleware import Middleware, Next

_in_thread: ContextVar[list[bool] | None] = ContextVar("mainspring_django_in_thread", default=None)


class FreshConnections(Middleware):
    """Closes connections that are broken, or older than CONN_MAX_AGE, before and after every handler.

    Django does so around requests, which a worker does not have. Connections are per thread: that of a plain function
    is closed in its thread, those of coroutines in the thread where Django runs their queries.
    """

    @contextmanager
    def calling(self, ctx: Context | BatchContext) -> Iterator[None]:  # noqa: ARG002
        """See ``Middleware.calling``."""
        if _on_loop():
            yield
            return
        if (told := _in_thread.get()) is not None:
            told.append(True)
        close_old()
        try:
            yield
        finally:
            close_old()

    async def handling(self, ctx: Context | BatchContext, call_next: Next) -> object:  # noqa: ARG002
        """See ``Middleware.handling``."""
        told: list[bool] = []
        token = _in_thread.set(told)
        try:
            return await call_next()
        finally:
            _in_thread.reset(token)
            if not told:
                await sync_to_async(close_old)()

    def calling_batch(self, ctx: BatchContext) -> AbstractContextManager[None]:
        """See ``Middleware.calling_batch``."""
        return self.calling(ctx)

    async def handling_batch(self, ctx: BatchContext, call_next: Next) -> object:
        """See ``Middleware.handling_batch``."""
        return await self.handling(ctx, call_next)


def close_old() -> None:
    """Do as ``django.db.close_old_connections``, except for connections in a transaction: that is a test's."""
    for each in connections.all(initialized_only=True):
        if not each.in_atomic_block:
            each.close_if_unusable_or_obsolete()


def _on_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
