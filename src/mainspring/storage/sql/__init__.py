"""What any two SQL databases do alike: a dialect says what to run, and this says in which order."""

from mainspring.storage.sql.browsing import browse, by_schedule, linked
from mainspring.storage.sql.causes import Cause, causes
from mainspring.storage.sql.shelves import Of, shelf
from mainspring.storage.sql.storage import Rooms, SqlStorage

__all__ = [
    "Cause",
    "Of",
    "Rooms",
    "SqlStorage",
    "browse",
    "by_schedule",
    "causes",
    "linked",
    "shelf",
]
