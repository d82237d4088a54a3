"""Any SQL database: a dialect says what to run, a gateway says where; together they keep the contract."""

from mainspring.storage.sql.fanouts import SqlFanouts
from mainspring.storage.sql.inbox import SqlInbox
from mainspring.storage.sql.leases import SqlLeases
from mainspring.storage.sql.operations import Clocked, SqlControls, SqlLedger, SqlMailbox, SqlTimetable, SqlUpkeep
from mainspring.storage.sql.scripts import (
    ControlsScripts,
    FanoutsScripts,
    Gateway,
    InboxScripts,
    Lane,
    LeasesScripts,
    LedgerScripts,
    MailboxScripts,
    Now,
    Scripts,
    TimetableScripts,
    UpkeepScripts,
)

__all__ = [
    "Clocked",
    "ControlsScripts",
    "FanoutsScripts",
    "Gateway",
    "InboxScripts",
    "Lane",
    "LeasesScripts",
    "LedgerScripts",
    "MailboxScripts",
    "Now",
    "Scripts",
    "SqlControls",
    "SqlFanouts",
    "SqlInbox",
    "SqlLeases",
    "SqlLedger",
    "SqlMailbox",
    "SqlTimetable",
    "SqlUpkeep",
    "TimetableScripts",
    "UpkeepScripts",
]
