"""Where the database is and by which credentials: one URL, or a function that is asked before every connection."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from urllib.parse import parse_qs, unquote, urlsplit

from mainspring.model.redaction import redacted
from mainspring.storage.postgres import faults

_PATIENCE = 10.0


class Source:
    """The URL of each new connection.

    ``ask`` is called in a thread of its own, since it may block, with a deadline. Whatever goes wrong with it is a
    ``ConnectionError``: the database cannot be reached now, and it is asked again for the next connection.
    """

    def __init__(self, dsn: str, ask: Callable[[], str] | None = None, patience: float = _PATIENCE) -> None:
        self.secrets: tuple[str, ...] = faults.secrets_of(dsn)
        """What no error may repeat: the passwords of the latest URL, and of the one before it."""
        self._dsn = dsn
        self._ask = ask
        self._patience = patience

    @property
    def renews(self) -> bool:
        """Whether credentials that are refused now may be others at the next connection."""
        return self._ask is not None

    async def url(self) -> str:
        """The URL to connect to now."""
        if self._ask is None:
            return self._dsn
        try:
            return self._taken(await asyncio.wait_for(asyncio.wrap_future(self._asked(self._ask)), self._patience))
        except Exception as error:  # noqa: BLE001 - it is the caller's function
            raise self._failed(error) from None

    def url_in_thread(self) -> str:
        """The same in a thread that may block."""
        if self._ask is None:
            return self._dsn
        try:
            return self._taken(self._asked(self._ask).result(self._patience))
        except Exception as error:  # noqa: BLE001 - it is the caller's function
            raise self._failed(error) from None

    def _asked(self, ask: Callable[[], str]) -> Future[str]:
        answer: Future[str] = Future()
        answer.set_running_or_notify_cancel()  # so that giving up on it leaves the thread its place to answer

        def work() -> None:
            try:
                answer.set_result(ask())
            except BaseException as error:  # noqa: BLE001 - it is raised where it is awaited
                answer.set_exception(error)

        threading.Thread(target=work, name="mainspring-url", daemon=True).start()
        return answer

    def _taken(self, dsn: str) -> str:
        if _databases(dsn) != _databases(self._dsn):
            raise ValueError("it names another database than the one the app was opened on: open the app again")
        if dsn != self._dsn:
            self._dsn, self.secrets = dsn, (*faults.secrets_of(dsn), *self.secrets[:2])
        return dsn

    def _failed(self, error: Exception) -> ConnectionError:
        if isinstance(error, TimeoutError):
            return ConnectionError(f"the function that gives the URL has not answered for {self._patience:g} s")
        return ConnectionError(
            f"the function that gives the URL failed: {type(error).__name__}: {redacted(str(error))}"
        )


def _databases(dsn: str) -> set[str]:
    """Each name of a database in a URL: which of several counts is up to the driver. Without any, it is the user's."""
    parts = urlsplit(dsn)
    said = parse_qs(parts.query)
    named = {unquote(parts.path.removeprefix("/")), *said.get("dbname", ()), *said.get("database", ())} - {""}
    return named or {os.environ.get("PGDATABASE") or said.get("user", [unquote(parts.username or "")])[-1]}
