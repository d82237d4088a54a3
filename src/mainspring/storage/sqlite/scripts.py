"""All scripts of SQLite together."""

from __future__ import annotations

from mainspring.storage.script import Row, Script
from mainspring.storage.sql import Scripts
from mainspring.storage.sqlite.controls import SqliteControls
from mainspring.storage.sqlite.dialect import Dialect
from mainspring.storage.sqlite.fanouts import SqliteFanouts
from mainspring.storage.sqlite.inbox import SqliteInbox
from mainspring.storage.sqlite.leases import SqliteLeases
from mainspring.storage.sqlite.ledger import SqliteLedger
from mainspring.storage.sqlite.mailbox import SqliteMailbox
from mainspring.storage.sqlite.measures import SqliteMeasures
from mainspring.storage.sqlite.schema import SqliteSchema
from mainspring.storage.sqlite.timetable import SqliteTimetable
from mainspring.storage.sqlite.upkeep import SqliteUpkeep


def scripts(sql: Dialect) -> Scripts:
    """The scripts for the tables of this dialect's prefix."""

    def ping() -> Script[object]:
        rows: list[Row] = list((yield sql("ping")))
        return rows

    mailbox = SqliteMailbox(sql)
    return Scripts(
        mailbox,
        SqliteLedger(sql),
        SqliteControls(sql),
        SqliteUpkeep(sql),
        SqliteTimetable(sql, mailbox),
        SqliteInbox(sql),
        SqliteLeases(sql),
        SqliteFanouts(sql, mailbox),
        SqliteMeasures(sql),
        ping,
        lambda gateway: SqliteSchema(gateway, sql),
    )
