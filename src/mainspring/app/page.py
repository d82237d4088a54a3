"""Pages of listing calls, and the cursors between them."""

from __future__ import annotations

import functools
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from datetime import datetime
from typing import Annotated, Any, Generic, ParamSpec, TypeVar

import msgspec
from msgspec import Meta

from mainspring.app.options import named_options, whole
from mainspring.model.errors import BadOption

T = TypeVar("T")
K = TypeVar("K")
P = ParamSpec("P")
R = TypeVar("R")

MOST = 10_000
"""The maximum number of rows of one page."""

Seq = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Name = Annotated[str, Meta(pattern=r"^[^\x00]*$")]
Instant = Annotated[datetime, Meta(tz=True)]

_FORMER = {"before", "after"}


class Page(list[T]):
    """One page of a listing call: a list of its rows, and the cursor of the next page.

    ``cursor`` is opaque text; None means that there is no more. Pass it as ``cursor=`` of the same call, with the same
    filters, to get the next page.
    """

    cursor: str | None

    def __init__(self, rows: Iterable[T] = (), cursor: str | None = None) -> None:
        super().__init__(rows)
        self.cursor = cursor


class Paging(Generic[T, K]):
    """The pages of one listing call, ordered by ``key``.

    A cursor is the name of the call and the key of the last row of a page. So a cursor of another call is rejected.
    """

    def __init__(self, call: str, key: Callable[[T], K], kind: Any) -> None:
        """``kind`` is the type of the key, within the bounds of what databases store."""
        self._call = call
        self._key = key
        self._kind = kind

    def start(self, cursor: object, limit: object) -> K | None:
        """Return the key that the page begins after, None for the first page. Raises BadOption."""
        check_limit(limit)
        return None if cursor is None else self._decoded(cursor)

    def page(self, rows: Sequence[T], limit: int) -> Page[T]:
        """Return a page of the rows, which were read up to one more than ``limit``."""
        shown = rows[:limit]
        return Page(shown, self.cursor(shown[-1]) if len(rows) > limit else None)

    def cursor(self, row: T) -> str:
        """Return the cursor of the page that begins after this row."""
        return self.encoded(self._key(row))

    def encoded(self, key: K) -> str:
        """Return the cursor of the page that begins after this key."""
        return urlsafe_b64encode(msgspec.json.encode((self._call, key))).decode().rstrip("=")

    def _decoded(self, cursor: object) -> K:
        if isinstance(cursor, str):
            try:
                raw = b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
                call, key = msgspec.json.decode(raw, type=tuple[str, msgspec.Raw])
                if call == self._call:
                    read: K = msgspec.json.decode(key, type=self._kind)
                    return read
            except (ValueError, msgspec.MsgspecError):
                pass  # reported below, as any other text that is no cursor of this call
        raise BadOption(
            f"cursor={cursor!r} is not a cursor of {self._call}: pass .cursor of a page that this call returned, "
            "or leave it out for the first page"
        )


def check_limit(limit: object) -> None:
    """Reject a page that has no rows or too many."""
    whole(limit, "limit", least=1, most=MOST)


def listing(method: Callable[P, Awaitable[R]]) -> Callable[P, Coroutine[Any, Any, R]]:
    """Reject unknown options of a listing call; the former ``before`` and ``after`` by a TypeError with ``cursor``."""
    named = named_options(method)

    @functools.wraps(method)
    async def call(*args: P.args, **options: P.kwargs) -> R:
        for former in _FORMER.intersection(options):
            raise TypeError(f"{method.__qualname__}() has no option {former!r} any more: pass cursor=page.cursor")
        return await named(*args, **options)

    return call
