"""The schema's name, and what is derived from it: refused unless it is plain, and quoted all the same."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

from mainspring.model.errors import BadOption
from mainspring.storage.script import load

PACKAGE = "mainspring.storage.postgres"
"""Where the ``.sql`` files and the migrations are."""

_PLAIN = re.compile(r"[a-z_][a-z0-9_]{0,47}(?:-[a-z0-9][a-z0-9_-]*)?")
_MOST = 63 - len("mainspring_")
"""So many characters leave room for what goes before them in the name of a channel."""


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
        """The statement of this name, for this schema."""
        return load(PACKAGE, name, self.quoted)

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
