"""The driver asyncpg: its connections are used as they are."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

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


_ARRAYS = {
    1000: ("bool", 16),
    1001: ("bytea", 17),
    1005: ("int2", 21),
    1007: ("int4", 23),
    1009: ("text", 25),
    1016: ("int8", 20),
    1022: ("float8", 701),
    1185: ("timestamptz", 1184),
    1187: ("interval", 1186),
    2951: ("uuid", 2950),
}
"""The types of arrays that statements use, with their elements. These ids are the same on every server."""


_NO_PARTS = dict.fromkeys(("basetype", "range_subtype", "attrtypoids", "attrnames"))


class _Known(NamedTuple):
    """In the place of the query about types: its name tells asyncpg that no statement without a name was sent."""

    name: str = "known"


class AsyncpgConnection(_Connection):
    """``Connection``: what the hot path calls is asyncpg's own, nothing stands in between."""

    @property
    def raw(self) -> Any:
        return self

    async def _introspect_types(self, ids: set[int], timeout: float | None) -> tuple[Any, Any]:  # noqa: ASYNC109
        """Describe the types in ``_ARRAYS`` without a query, which takes three times as long as connecting.

        This is not one of asyncpg's public methods: if a release does not call it, it sends the query again.
        """
        if not ids <= _ARRAYS.keys():
            driver: Any = super()
            described: tuple[Any, Any] = await driver._introspect_types(ids, timeout)  # noqa: SLF001
            return described
        return [_array(id) for id in ids], _Known()

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


def _array(id: int) -> Mapping[str, Any]:
    """Return the description of an array, as asyncpg reads it."""
    element, element_id = _ARRAYS[id]
    type = {"oid": id, "ns": "pg_catalog", "name": f"_{element}", "kind": b"b"}
    return {**_NO_PARTS, **type, "elemtype": element_id, "elemdelim": b","}


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
        except ssl.SSLError:
            raise  # one about a certificate is also a ValueError
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
