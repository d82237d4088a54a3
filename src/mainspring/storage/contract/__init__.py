"""What every storage must do. The tests in ``tests/contract`` are the other half of this room.

Names of topics, groups and keys arrive here as they are written, and already validated.
The storage's clock decides every due time, claim and expiry (invariant 7); ``Storage.now`` replaces it in tests.
"""

from mainspring.storage.contract.controls import Controls
from mainspring.storage.contract.doorbell import BellMode, Doorbell
from mainspring.storage.contract.fanouts import Fanouts
from mainspring.storage.contract.inbox import Inbox
from mainspring.storage.contract.leases import Leases
from mainspring.storage.contract.ledger import Ledger
from mainspring.storage.contract.lending import Lender
from mainspring.storage.contract.mailbox import Keyed, Mailbox
from mainspring.storage.contract.measures import Measures
from mainspring.storage.contract.storage import Schema, Storage
from mainspring.storage.contract.timetable import Timetable
from mainspring.storage.contract.upkeep import Upkeep

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
    "Schema",
    "Storage",
    "Timetable",
    "Upkeep",
]
