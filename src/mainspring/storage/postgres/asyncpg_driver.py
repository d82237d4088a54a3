"""The driver asyncpg: its connections are used as they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import asyncpg

from mainspring.storage.postgres.driver import NAME, Connection, Ears, Refusal, SettingsRefused
from mainspring.storage.postgres.errors import is_refused_setting, unreadable

if TYPE_CHECKING:
    _Connection = asyncpg.Connection[asyncpg.Record]
else:
    _Connection = asyncpg.Connection

_GOODBYE = 1.0
# The internal error is what asyncpg has for a connection that was cut at a bad moment.
_ERRORS: tuple[type[Exception], ...] = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)
_UNWELL: tuple[type[Exception], ...] = (*_ERRORS, OSError, TimeoutError)


class AsyncpgConnection(_Connection):
    """``Connection``: what the hot path calls is asyncpg's own, nothing stands in between."""

    async def listen(self, ears: Ears, lost: Callable[[], None]) -> None:
        self.add_termination_listener(lambda _connection: lost())
        for channel, listener in ears.items():
            await self.add_listener(channel, _ear(listener))

    def major(self) -> int:
        return self.get_server_version().major

    def server_pid(self) -> int:
        return self.get_server_pid()

    async def hang_up(self) -> None:
        if self.is_closed():
            return
        try:
            await self.close(timeout=_GOODBYE)
        except _UNWELL:
            self.terminate()


class AsyncpgDriver:
    """``Driver`` over asyncpg."""

    errors: tuple[type[Exception], ...] = _ERRORS

    async def connect(self, dsn: str, settings: Mapping[str, str] | None, patience: float) -> Connection:
        pooled: dict[str, Any] = {"statement_cache_size": 0} if settings is None else {}
        try:
            return await asyncpg.connect(
                dsn,
                timeout=patience,
                connection_class=AsyncpgConnection,
                server_settings={"application_name": NAME, **(settings or {})},
                # No limit: a statement that is not kept would be planned for every call.
                max_cacheable_statement_size=0,
                # Kept for good: plans are pinned, and there are a few dozen of them.
                max_cached_statement_lifetime=0,
                **pooled,
            )
        except (asyncpg.ClientConfigurationError, ValueError):
            raise unreadable() from None
        except asyncpg.PostgresError as error:
            if settings is not None and is_refused_setting(self.refusal(error)):
                raise SettingsRefused from error
            raise

    def refusal(self, error: BaseException) -> Refusal | None:
        if not isinstance(error, asyncpg.PostgresError):
            return None
        return Refusal(error.sqlstate or "", isinstance(error, asyncpg.InvalidCachedStatementError))


def _ear(listener: Callable[[str], None]) -> Callable[[Any, int, str, Any], None]:
    return lambda _connection, _pid, _channel, payload: listener(payload)
