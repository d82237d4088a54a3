"""What can be wrong with a caller's PostgreSQL transaction, in words, whichever driver it is on."""

from __future__ import annotations

from mainspring.model.errors import MainspringError, SchemaMissing
from mainspring.storage.migrate import flags, migrations
from mainspring.storage.postgres.names import PACKAGE
from mainspring.storage.refusals import failed

_NO_TABLES = frozenset({"42P01", "3F000", "42883"})
"""Relation, schema or function: what ``mainspring migrate`` makes."""
_FAILED = "25P02"


def explained(error: BaseException, state: str | None, database: str | None) -> MainspringError | None:
    """The error to raise instead, None to let the driver's own pass.

    It is the caller's transaction, and whoever retries it after a serialization failure or a deadlock looks for the
    driver's own error. Said in our words is only what nobody but us knows what to do about.
    """
    if state == _FAILED:
        return failed()
    if state not in _NO_TABLES:
        return None
    said = str(error).strip().partition("\n")[0]
    return SchemaMissing(
        0,
        migrations(PACKAGE)[-1].number,
        f"the database {database or '(unknown)'!r} that tx= is connected to has no Mainspring tables ({said}): run "
        f"`mainspring migrate{flags(said)}` on it. If it is another database than the app's, connect to the app's "
        "own: a message joins a transaction of its own database only",
    )
