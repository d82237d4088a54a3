"""The storage on PostgreSQL, for production. Needs the extra ``postgres`` or ``psycopg``; the scripts need neither."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from mainspring.model.errors import BadOption
from mainspring.storage.contract import Doorbell, PoolUse, Schema, Transfer
from mainspring.storage.operation import Clocked, Gateway, HandSet, Nowhere, operation
from mainspring.storage.portable.dialect import SqlStorage
from mainspring.storage.postgres.controls import PostgresControls
from mainspring.storage.postgres.coordination import PostgresFanouts, PostgresInbox, PostgresLeases, PostgresTimetable
from mainspring.storage.postgres.dialect import Names, PostgresOperations
from mainspring.storage.postgres.doorbell import PostgresDoorbell
from mainspring.storage.postgres.driver import DriverName, choose
from mainspring.storage.postgres.gateway import PostgresGateway, UrlSource
from mainspring.storage.postgres.ledger import PostgresLedger
from mainspring.storage.postgres.lender import PostgresLender
from mainspring.storage.postgres.mailbox import PostgresMailbox
from mainspring.storage.postgres.schema import EnlistedSchema, PostgresSchema, ddl
from mainspring.storage.postgres.transfer import PostgresMoves, PostgresTransfer, UnhurriedGateway
from mainspring.storage.postgres.upkeep import PostgresMeasures, PostgresUpkeep
from mainspring.storage.script import Script

__all__ = ["PostgresStorage"]


class PostgresOperationSet(PostgresOperations):
    """``OperationSet`` on PostgreSQL, for the tables of one schema, over any gateway and clock."""

    def __init__(self, names: Names, gateway: Gateway, clock: Clocked) -> None:
        super().__init__(names, gateway, clock)
        self.mailbox: PostgresMailbox = PostgresMailbox(names, gateway, clock)
        self.ledger: PostgresLedger = PostgresLedger(names, gateway, clock)
        self.controls: PostgresControls = PostgresControls(names, gateway, clock)
        self.upkeep: PostgresUpkeep = PostgresUpkeep(names, gateway, clock)
        self.timetable: PostgresTimetable = PostgresTimetable(names, gateway, clock)
        self.inbox: PostgresInbox = PostgresInbox(names, gateway, clock)
        self.leases: PostgresLeases = PostgresLeases(names, gateway, clock)
        self.fanouts: PostgresFanouts = PostgresFanouts(names, gateway, clock)
        self.measures: PostgresMeasures = PostgresMeasures(names, gateway, clock)
        self.moves: PostgresMoves = PostgresMoves(names, gateway, clock)
        self.schema: EnlistedSchema = EnlistedSchema(gateway, names)

    @operation("read")
    def ping(self) -> Script[None]:
        yield self._sql("ping")


class PostgresStorage(SqlStorage):
    """``Storage`` on PostgreSQL 13 or newer, in a schema of its own.

    ``pool_size`` bounds the connections for publishing and reading; claiming, settling and the doorbell have one
    each besides, opened when they are first used. No wait for the database is longer than ``timeout``. Unless a
    ``driver`` is named it is the first that is installed. With ``ask`` the URL of every new connection is what that
    says, since credentials may change; ``dsn`` is what it has said first. With ``require_tls`` none of them is opened
    without TLS. A ``sparing`` one has two connections in all, whatever ``pool_size`` says, and polls. ``now`` is one
    for all siblings, since the clock belongs to the database.
    """

    migrates_itself: bool = False

    def __init__(
        self,
        dsn: str,
        *,
        schema: str = "mainspring",
        pool_size: int = 4,
        timeout: timedelta = timedelta(seconds=10),
        driver: DriverName | None = None,
        ask: Callable[[], str] | None = None,
        require_tls: bool = False,
        sparing: bool = False,
        _clock: HandSet | None = None,
    ) -> None:
        if pool_size < 1:
            raise BadOption(f"pool_size={pool_size!r}: publishing needs at least one connection")
        if timeout <= timedelta():
            raise BadOption(f"timeout={timeout!r} leaves the database no time to answer")
        names = Names(schema)
        self._dsn, self._names, self._timeout, self._pool_size = dsn, names, timeout, pool_size
        self._clock = HandSet() if _clock is None else _clock
        self._driver, self._ask, self._require_tls, self._sparing = driver, ask, require_tls, sparing
        self._source = UrlSource(dsn, ask, timeout.total_seconds(), require_tls=require_tls)
        self._gateway = PostgresGateway(choose(driver), self._source, pool_size, timeout, sparing=sparing)
        gateway, clock = self._gateway, self._clock
        super().__init__(PostgresOperationSet(Names(schema, own=True), gateway, clock))
        self._bell = PostgresDoorbell(gateway, names, clock, sparing=sparing)
        self.doorbell: Doorbell = self._bell
        self.schema: Schema = PostgresSchema(gateway, names)
        self.transfer: Transfer = PostgresTransfer(names, UnhurriedGateway(gateway))

    @property
    def now(self) -> datetime | None:
        """The hand-set clock, or None: the database owns the clock."""
        return self._clock.now

    @now.setter
    def now(self, instant: datetime | None) -> None:
        self._clock.now = instant

    async def open(self) -> None:
        """See ``Storage.open``. Connections are opened when they are first used."""
        self._gateway.open()

    async def close(self) -> None:
        await self._bell.hang_up()
        await self.transfer.close()
        await self._gateway.close()

    def enlisted(self, gateway: Gateway | None = None, clock: Clocked | None = None) -> PostgresOperationSet:
        """The operations for transactions of callers, whose connections run the scripts unless a gateway does."""
        return PostgresOperationSet(self._names, gateway or Nowhere(), clock or self._clock)

    def pool(self) -> PoolUse:
        return self._gateway.pool

    def lender(self, size: int) -> PostgresLender:
        patience = self._timeout.total_seconds()
        return PostgresLender(self._source, size, patience, self._driver, lambda: self._gateway.pooled)

    def sibling(self) -> PostgresStorage:
        """See ``Storage.sibling``. It opens only the connections it uses."""
        return PostgresStorage(
            self._dsn,
            schema=self._names.schema,
            pool_size=self._pool_size,
            timeout=self._timeout,
            driver=self._driver,
            ask=self._ask,
            require_tls=self._require_tls,
            sparing=self._sparing,
            _clock=self._clock,
        )

    @staticmethod
    def ddl(prefix: str = "mainspring") -> str:
        """All migrations for the schema ``prefix`` as one script, to be applied by hand."""
        return ddl(Names(prefix))
