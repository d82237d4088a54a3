"""A savepoint around every handler, made by whatever library the test's transaction is of, so that it knows of it."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, Protocol

from mainspring.app.handles import Kind
from mainspring.app.testing.calling import loopless
from mainspring.app.testing.joined import JoinedGateway
from mainspring.storage.script import Script, Statement

_NAME = "mainspring_handler"
_OUTER = "mainspring_testing"


class Mark(Protocol):
    """One savepoint."""

    async def begin(self) -> None:
        """Set it."""
        ...

    async def end(self, error: BaseException | None) -> None:
        """Let go of it, after going back to it if there was an error."""
        ...


class Savepoints:
    """Makes savepoints in one transaction of the caller's."""

    def __init__(self, kind: Kind, handle: Any, gateway: JoinedGateway) -> None:
        self._kind = kind
        self._handle = handle
        self._gateway = gateway

    def __call__(self) -> AbstractAsyncContextManager[bool]:
        """One savepoint: gone back to if the block raises."""
        return _Around(self._mark())

    def _mark(self) -> Mark:
        library = self._kind.library
        if library == "sqlalchemy":
            return _Nested(self._handle)
        if library == "sqlite3":
            return _Spelled(self._gateway)
        if library == "django":
            from django.db import transaction

            return _Managed(transaction.atomic(using=self._handle.alias), blocking=True)
        return _Managed(self._handle.transaction(), blocking=self._kind.blocking)


class _Around:
    def __init__(self, mark: Mark) -> None:
        self._mark = mark

    async def __aenter__(self) -> bool:
        await self._mark.begin()
        return True

    async def __aexit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        await self._mark.end(error)


class _Managed:
    """What Django, psycopg and asyncpg give: a context manager that is a savepoint within a transaction."""

    def __init__(self, manager: Any, *, blocking: bool) -> None:
        self._manager = manager
        self._blocking = blocking

    async def begin(self) -> None:
        if self._blocking:
            with loopless():
                self._manager.__enter__()
        else:
            await self._manager.__aenter__()

    async def end(self, error: BaseException | None) -> None:
        about = (None, None, None) if error is None else (type(error), error, error.__traceback__)
        if self._blocking:
            with loopless():
                self._manager.__exit__(*about)
        else:
            await self._manager.__aexit__(*about)


class _Nested:
    """SQLAlchemy's. Not as a context manager: a handler that commits its session would find that forbidden."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle
        self._nested: Any = None

    async def begin(self) -> None:
        self._nested = await _if_awaitable(self._handle.begin_nested())

    async def end(self, error: BaseException | None) -> None:
        from sqlalchemy.exc import InvalidRequestError

        nested = self._nested
        if error is None:
            if nested.is_active:  # a handler that committed its session has ended it
                await _if_awaitable(nested.commit())
            return
        try:
            await _if_awaitable(nested.rollback())
        except InvalidRequestError:
            return  # ended already


class _Spelled:
    """In SQL."""

    def __init__(self, gateway: JoinedGateway) -> None:
        self._gateway = gateway

    async def begin(self) -> None:
        await self._gateway.run(_said(f"SAVEPOINT {_NAME}"), "settle")

    async def end(self, error: BaseException | None) -> None:
        if error is not None:
            await self._gateway.run(_said(f"ROLLBACK TO {_NAME}"), "settle")
        await self._gateway.run(_said(f"RELEASE {_NAME}"), "settle")


async def begin(gateway: JoinedGateway) -> None:
    """Have SQLite in a transaction for good: sqlite3 begins one before it writes rows, but not before it makes tables.

    It is never released: outside of any other it would commit. It goes with the caller's transaction.
    """
    await gateway.run(_said(f"SAVEPOINT {_OUTER}"), "settle")


def _said(sql: str) -> Script[None]:
    yield Statement(sql)


async def _if_awaitable(answer: Any) -> Any:
    return await answer if hasattr(answer, "__await__") else answer
