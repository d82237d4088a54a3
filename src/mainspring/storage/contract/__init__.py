"""What every storage must do. ``tests/contract`` holds every storage to it.

Names of topics, groups and keys arrive as they are stored, already validated.
The storage's clock decides every due time, claim and expiry (invariant 7); ``Storage.now`` replaces it in tests.
"""

from mainspring.storage.contract.coordination import Fanouts, Inbox, Leases, Timetable
from mainspring.storage.contract.messages import Controls, Keyed, Ledger, Mailbox
from mainspring.storage.contract.moves import Moves, Transfer
from mainspring.storage.contract.storage import (
    BellMode,
    Doorbell,
    Lender,
    Measures,
    OperationSet,
    PoolUse,
    Schema,
    Storage,
    Upkeep,
)

__all__ = [
    "BellMode",
    "Controls",
    "Doorbell",
    "Fanouts",
    "Inbox",
    "Keyed",
    "Leases",
    "Ledger",
    "Lender",
    "Mailbox",
    "Measures",
    "Moves",
    "OperationSet",
    "PoolUse",
    "Schema",
    "Storage",
    "Timetable",
    "Transfer",
    "Upkeep",
]
