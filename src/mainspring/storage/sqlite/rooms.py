"""All operations of SQLite together."""

from __future__ import annotations

from mainspring.storage.operation import Gateway, operation
from mainspring.storage.script import Script
from mainspring.storage.sqlite.controls import SqliteControls
from mainspring.storage.sqlite.dialect import Dialect
from mainspring.storage.sqlite.fanouts import SqliteFanouts
from mainspring.storage.sqlite.inbox import SqliteInbox
from mainspring.storage.sqlite.leases import SqliteLeases
from mainspring.storage.sqlite.ledger import SqliteLedger
from mainspring.storage.sqlite.mailbox import SqliteMailbox
from mainspring.storage.sqlite.measures import SqliteMeasures
from mainspring.storage.sqlite.operations import SqliteOperations
from mainspring.storage.sqlite.schema import SqliteSchema
from mainspring.storage.sqlite.timetable import SqliteTimetable
from mainspring.storage.sqlite.upkeep import SqliteUpkeep


class SqliteRooms(SqliteOperations):
    """``Rooms`` on SQLite, for the tables of one prefix, over any gateway."""

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
        self.schema: SqliteSchema = SqliteSchema(gateway, sql)

    @operation("read")
    def ping(self) -> Script[None]:
        yield self._sql("ping")
