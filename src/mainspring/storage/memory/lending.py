"""Memory has nothing to lend: there is no transaction in it that a handler could be given."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, NoReturn

from mainspring.model.errors import BadOption


class MemoryLender:
    """``Lender`` that refuses."""

    def __init__(self, size: int) -> None:
        self.size: int = size

    def lend(self) -> AbstractAsyncContextManager[Any]:
        """See ``Lender.lend``."""
        _refuse()

    def lend_blocking(self) -> AbstractContextManager[Any]:
        """See ``Lender.lend_blocking``."""
        _refuse()

    def check(self, *, blocking: bool) -> None:  # noqa: ARG002 - neither kind
        """See ``Lender.check``."""
        _refuse()

    async def close(self) -> None:
        """See ``Lender.close``."""


def _refuse() -> NoReturn:
    raise BadOption(
        "transactional=True needs a database, and memory:// has no transactions: use sqlite:/// or postgresql://, or "
        "try the handler in app.testing(tx=…), which lends it your own"
    )
