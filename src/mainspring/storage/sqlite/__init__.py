"""SQLite: the embedded database, one file on a local disk."""

from __future__ import annotations

import logging
import re
import sqlite3
from datetime import datetime

from mainspring.model.errors import BadOption
from mainspring.storage.contract import Doorbell, PoolUse, Transfer
from mainspring.storage.operation import Clocked, Gateway, Nowhere, operation
from mainspring.storage.portable.dialect import SqlStorage
from mainspring.storage.script import Script
from mainspring.storage.sqlite.controls import SqliteControls
from mainspring.storage.sqlite.coordination import SqliteFanouts, SqliteInbox, SqliteLeases, SqliteTimetable
from mainspring.storage.sqlite.dialect import Dialect, SqliteOperations
from mainspring.storage.sqlite.doorbell import SqliteDoorbell
from mainspring.storage.sqlite.gateway import SqliteGateway
from mainspring.storage.sqlite.ledger import SqliteLedger
from mainspring.storage.sqlite.lender import SqliteLender
from mainspring.storage.sqlite.mailbox import SqliteMailbox
from mainspring.storage.sqlite.schema import SqliteSchema, ddl
from mainspring.storage.sqlite.transfer import SqliteMoves, SqliteTransfer
from mainspring.storage.sqlite.upkeep import SqliteMeasures, SqliteUpkeep

__all__ = ["SqliteStorage", "refuse_old_sqlite", "wal_reset_bug"]


_OLDEST = (3, 35, 0)
_WAL_RESET_FIXED = (3, 51, 3)
_PREFIX = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,39}(?:-[a-z0-9][a-z0-9_-]*)?")
_log = logging.getLogger("mainspring.storage")


class SqliteOperationSet(SqliteOperations):
    """``OperationSet`` on SQLite, for the tables of one prefix, over any gateway."""

    def __init__(self, sql: Dialect, gateway: Gateway) -> None:
        super().__init__(sql, gateway)
        self.mailbox: SqliteMailbox = SqliteMailbox(sql, gateway)
        self.ledger: SqliteLedger = SqliteLedger(sql, gateway)
        self.controls: SqliteControls = SqliteControls(sql, gateway)
        self.upkeep: SqliteUpkeep = SqliteUpkeep(sql, gateway)
        self.timetable: SqliteTimetable = SqliteTimetable(sql, gateway)
        self.inbox: SqliteInbox = SqliteInbox(sql, gateway)
        self.leases: SqliteLeases = SqliteLeases(sql, gateway)
        self.fanouts: SqliteFanouts = SqliteFanouts(sql, gateway)
        self.measures: SqliteMeasures = SqliteMeasures(sql, gateway)
        self.moves: SqliteMoves = SqliteMoves(sql, gateway)
        self.schema: SqliteSchema = SqliteSchema(gateway, sql)

    @operation("read")
    def ping(self) -> Script[None]:
        yield self._sql("ping")


class _Shared:
    """What a storage and its siblings have in common: the hand-set clock and the way to the file."""

    def __init__(self, path: str, prefix: str, *, durable: bool) -> None:
        self.now: datetime | None = None
        self.mentioned = False
        self.durable: bool = durable
        self.dialect: Dialect = Dialect(prefix, hand_clock=self)
        self.gateway: SqliteGateway = SqliteGateway(path, tables=prefix, durable=durable)


class SqliteStorage(SqlStorage):
    """``Storage`` in one file, safe with any number of threads, event loops and processes.

    One thread of this process writes, for all siblings too, and commits in groups. ``durable=True`` waits for the
    disk at every commit; without it a power cut (not a crash of the process) may undo the last commits.
    """

    migrates_itself = True

    def __init__(
        self, path: str, *, prefix: str = "mainspring", durable: bool = False, _shared: _Shared | None = None
    ) -> None:
        if _shared is None:
            _refuse(path, prefix)
            _shared = _Shared(path, prefix, durable=durable)
        self._shared = _shared
        self._opened = False
        self._gateway = gateway = _shared.gateway
        operations = SqliteOperationSet(_shared.dialect, gateway)
        super().__init__(operations)
        self._probe = operations.ping.script
        self._bell = SqliteDoorbell(gateway, _shared.dialect)
        self.doorbell: Doorbell = self._bell
        self.transfer: Transfer = SqliteTransfer(_shared.dialect, gateway, gateway.path)

    @property
    def now(self) -> datetime | None:
        """The hand-set clock, one for all siblings; None in production."""
        return self._shared.now

    @now.setter
    def now(self, instant: datetime | None) -> None:
        self._shared.now = instant

    async def open(self) -> None:
        """See ``Storage.open``. Raises StorageError when the file cannot be what it should be."""
        if self._opened:
            return
        self._opened = True
        try:
            await self._gateway.open(self._probe())
        except BaseException:
            self._opened = False
            raise
        if not self._shared.mentioned:
            self._shared.mentioned = True
            if (known := wal_reset_bug()) is not None:
                _log.info("%s", known)

    async def close(self) -> None:
        """See ``Storage.close``. Earlier calls are still finished."""
        if not self._opened:
            return
        self._opened = False
        self._bell.hang_up()
        await self._gateway.close()

    def enlisted(self, gateway: Gateway | None = None, clock: Clocked | None = None) -> SqliteOperationSet:
        """The operations for transactions of callers, whose connections run the scripts unless a gateway does."""
        return SqliteOperationSet(self._shared.dialect.by(clock or self._shared), gateway or Nowhere())

    def pool(self) -> PoolUse:
        """See ``Storage.pool``. Those that read: all that is written shares one, and is committed together."""
        return self._gateway.pool

    def lender(self, size: int) -> SqliteLender:
        return SqliteLender(self._gateway.path, size, durable=self._shared.durable)

    def sibling(self) -> SqliteStorage:
        """See ``Storage.sibling``. It shares the writer: two of them would only wait for each other's lock."""
        return SqliteStorage(self._gateway.path, _shared=self._shared)

    @staticmethod
    def ddl(prefix: str = "mainspring") -> str:
        """All migrations as one script, with their bookkeeping."""
        _refuse_prefix(prefix)
        return ddl(Dialect(prefix).prefix)


def _refuse(path: str, prefix: str) -> None:
    if not path or ":memory:" in path or "mode=memory" in path:
        raise BadOption(
            f"SQLite in memory ({path!r}) would be another database for every connection: use memory:// instead"
        )
    refuse_old_sqlite()
    _refuse_prefix(prefix)


def refuse_old_sqlite() -> None:
    """Raise BadOption where the SQLite of this Python is older than what the statements need."""
    if sqlite3.sqlite_version_info < _OLDEST:
        raise BadOption(f"Mainspring needs SQLite 3.35 or newer, and this Python has {sqlite3.sqlite_version}")


def _refuse_prefix(prefix: str) -> None:
    # It becomes part of the SQL, so nothing but a plain name will do.
    if not _PREFIX.fullmatch(prefix):
        raise BadOption(
            f"prefix={prefix!r} is not a plain name of letters, digits and underscores, at most 40, "
            "with a dash and a namespace after it or without"
        )


def wal_reset_bug() -> str | None:
    """What to know about this SQLite where several processes write to one file; None when there is nothing."""
    if sqlite3.sqlite_version_info >= _WAL_RESET_FIXED:
        return None
    return (
        f"SQLite {sqlite3.sqlite_version} has the WAL-reset bug: several processes that write to one file at once may, "
        "rarely, damage it; a single process is safe. SQLite 3.51.3 mends it: use a Python that is linked with it, or "
        "PostgreSQL"
    )
