"""The names of one schema, and the base class of its operations."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Any

from mainspring.model.errors import BadOption
from mainspring.storage.operation import Clocked, Gateway, Now
from mainspring.storage.portable.dialect import SqlOperations
from mainspring.storage.portable.statements import load
from mainspring.storage.postgres.columns import PostgresValues
from mainspring.storage.script import Script, Statement

PACKAGE = "mainspring.storage.postgres"
"""Where the ``.sql`` files and the migrations are."""

_PLAIN = re.compile(r"[a-z_][a-z0-9_]{0,47}(?:-[a-z0-9][a-z0-9_-]*)?")
_MOST = 63 - len("mainspring_")
"""The most characters of a schema, so that its channel's name fits."""


class Opening(Statement):
    """The first of several statements that are written together or not at all.

    A gateway opens a transaction before it and commits when the script returns. A script that never yields one
    pays no trip for BEGIN and COMMIT: each of its statements is a transaction by itself. In a transaction that
    a caller has opened it is a statement like any other.
    """

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Names:
    """What everything of one schema is called. PostgreSQL cuts names at 63 bytes; none of these is longer.

    The schema of a namespace has it after a dash, as in ``mainspring-staging``.
    """

    schema: str
    own: bool = False
    """Whether statements run in transactions of our own, and not in a caller's."""

    def __post_init__(self) -> None:
        """Refuse a name that would have to be escaped anywhere."""
        if not _PLAIN.fullmatch(self.schema) or len(self.schema) > _MOST:
            raise BadOption(
                f"schema={self.schema!r} cannot be a schema's name: use at most 48 small letters, digits and "
                f"underscores, no digit first; with a dash and a namespace after it at most {_MOST}"
            )

    @property
    def quoted(self) -> str:
        """As it stands in SQL text: quoted, since ``user`` is plain and yet reserved, and a dash is not plain."""
        return f'"{self.schema}"'

    def sql(self, name: str) -> str:
        """The text of the statement of this name, for this schema."""
        return load(PACKAGE, name, self.quoted)

    def __call__(self, name: str, *args: Any) -> Statement:
        """The statement of this name with these parameters."""
        return Statement(load(PACKAGE, name, self.quoted), args)

    def opening(self, name: str, *args: Any) -> Opening:
        """The same, as the first of several statements that are written together."""
        return Opening(load(PACKAGE, name, self.quoted), args)

    @property
    def channel(self) -> str:
        """The channel on which publishers ring."""
        return f"mainspring_{self.schema}"

    @property
    def bell(self) -> str:
        """The channel as statements are given it: ``ring`` may stay silent in a caller's transaction."""
        return f"!{self.channel}" if self.own else self.channel

    @property
    def proof_channel(self) -> str:
        """The channel on which a bell rings itself. No schema's ``channel`` can be the same."""
        return f"mainspring?{self.schema}"

    @property
    def lock(self) -> int:
        """The advisory lock under which this schema is migrated."""
        digest = hashlib.sha256(b"mainspring migrate " + self.schema.encode()).digest()
        return int.from_bytes(digest[:8], "big", signed=True)


class PostgresOperations(SqlOperations):
    """Operations on PostgreSQL, with the statements of one schema."""

    _values = PostgresValues()

    def __init__(self, names: Names, gateway: Gateway, clock: Clocked) -> None:
        super().__init__(gateway, clock)
        self._sql: Names = names
        self._channel = names.bell

    def _read_clock(self) -> Script[Now]:
        """Return the hand-set clock: statements read the server's themselves."""
        yield from ()
        return self.now

    _turn_clock = _read_clock

    def _mark_clock(self, at: Now) -> Script[None]:  # noqa: ARG002 - the server's clock needs no mark
        yield from ()

    def _ring(self) -> Statement:
        return self._sql("ring", self._channel)
