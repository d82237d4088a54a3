"""Any SQL database: a dialect says what to run, a gateway says where; together they keep the contract."""

from mainspring.storage.sql.browsing import browse, by_schedule, linked
from mainspring.storage.sql.causes import Cause, causes
from mainspring.storage.sql.controls import SqlControls
from mainspring.storage.sql.fanouts import SqlFanouts
from mainspring.storage.sql.inbox import SqlInbox
from mainspring.storage.sql.leases import SqlLeases
from mainspring.storage.sql.ledger import SqlLedger
from mainspring.storage.sql.measures import SqlMeasures
from mainspring.storage.sql.operations import Clocked, SqlMailbox, SqlTimetable, SqlUpkeep
from mainspring.storage.sql.scripts import (
    ControlsScripts,
    FanoutsScripts,
    Gateway,
    InboxScripts,
    Lane,
    LeasesScripts,
    LedgerScripts,
    MailboxScripts,
    MeasuresScripts,
    Now,
    Scripts,
    TimetableScripts,
    UpkeepScripts,
)
from mainspring.storage.sql.shelves import Of, shelf

__all__ = [
    "Cause",
    "Clocked",
    "ControlsScripts",
    "FanoutsScripts",
    "Gateway",
    "InboxScripts",
    "Lane",
    "LeasesScripts",
    "LedgerScripts",
    "MailboxScripts",
    "MeasuresScripts",
    "Now",
    "Of",
    "Scripts",
    "SqlControls",
    "SqlFanouts",
    "SqlInbox",
    "SqlLeases",
    "SqlLedger",
    "SqlMailbox",
    "SqlMeasures",
    "SqlTimetable",
    "SqlUpkeep",
    "TimetableScripts",
    "UpkeepScripts",
    "browse",
    "by_schedule",
    "causes",
    "linked",
    "shelf",
]
