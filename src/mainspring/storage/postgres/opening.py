"""How a script says that from here on its statements belong together."""

from __future__ import annotations

from mainspring.storage.script import Statement


class Opening(Statement):
    """The first of several statements that are written together or not at all.

    A gateway opens a transaction before it and commits when the script returns. A script that never yields one
    pays no trip for BEGIN and COMMIT: each of its statements is a transaction by itself. In a transaction that
    a caller has opened it is a statement like any other.
    """

    __slots__ = ()
