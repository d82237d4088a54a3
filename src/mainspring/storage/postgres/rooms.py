"""All operations of PostgreSQL together. They need no driver."""

from __future__ import annotations

from mainspring.storage.operation import Clocked, Gateway, operation
from mainspring.storage.postgres.controls import PostgresControls
from mainspring.storage.postgres.fanouts import PostgresFanouts
from mainspring.storage.postgres.inbox import PostgresInbox
from mainspring.storage.postgres.leases import PostgresLeases
from mainspring.storage.postgres.ledger import PostgresLedger
from mainspring.storage.postgres.mailbox import PostgresMailbox
from mainspring.storage.postgres.measures import PostgresMeasures
from mainspring.storage.postgres.names import Names
from mainspring.storage.postgres.operations import PostgresOperations
from mainspring.storage.postgres.schema import JoinedSchema
from mainspring.storage.postgres.timetable import PostgresTimetable
from mainspring.storage.postgres.upkeep import PostgresUpkeep
from mainspring.storage.script import Script, Statement


class PostgresRooms(PostgresOperations):
    """``Rooms`` on PostgreSQL, for the tables of one schema, over any gateway and clock."""

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
        self.schema: JoinedSchema = JoinedSchema(gateway, names)

    @operation("read")
    def ping(self) -> Script[None]:
        yield Statement(self._sql("ping"))
