"""Context managers that may clean up after a failure, and cannot make it undone."""

from __future__ import annotations

from types import TracebackType
from typing import Any


class Firm:
    """A context manager, blocking or async, whose way out never swallows an exception.

    What was swallowed would look like success, and a message that nobody handled would be gone.
    """

    __slots__ = ("_inner",)

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __enter__(self) -> Any:
        """Enter."""
        return self._inner.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Leave; an exception goes on."""
        self._inner.__exit__(kind, error, traceback)

    async def __aenter__(self) -> Any:
        """Enter."""
        return await self._inner.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Leave; an exception goes on."""
        await self._inner.__aexit__(kind, error, traceback)
