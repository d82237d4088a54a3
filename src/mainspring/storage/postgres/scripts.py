"""All scripts of PostgreSQL together. They need no driver."""

from __future__ import annotations

from mainspring.storage.postgres.controls import PostgresControls
from mainspring.storage.postgres.fanouts import PostgresFanouts
from mainspring.storage.postgres.inbox import PostgresInbox
from mainspring.storage.postgres.leases import PostgresLeases
from mainspring.storage.postgres.ledger import PostgresLedger
from mainspring.storage.postgres.mailbox import PostgresMailbox
from mainspring.storage.postgres.measures import PostgresMeasures
from mainspring.storage.postgres.names import Names
from mainspring.storage.postgres.schema import JoinedSchema
from mainspring.storage.postgres.timetable import PostgresTimetable
from mainspring.storage.postgres.upkeep import PostgresUpkeep
from mainspring.storage.script import Script, Statement
from mainspring.storage.sql import Scripts


def scripts(schema: str, *, own: bool = False) -> Scripts:
    """The scripts for the tables in this schema: for callers' transactions, or for our own."""
    names = Names(schema, own)

    def ping() -> Script[None]:
        yield Statement(names.sql("ping"))

    mailbox = PostgresMailbox(names)
    return Scripts(
        mailbox,
        PostgresLedger(names),
        PostgresControls(names),
        PostgresUpkeep(names),
        PostgresTimetable(names, mailbox),
        PostgresInbox(names),
        PostgresLeases(names),
        PostgresFanouts(names, mailbox),
        PostgresMeasures(names),
        ping,
        lambda gateway: JoinedSchema(gateway, names),
    )
