"""Time zones by name. UTC exists on every host, even without a time zone database."""

from __future__ import annotations

from io import BytesIO
from struct import pack
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

_UTC = "UTC"
# One kind of local time in the format of RFC 8536, no changes between kinds: offset 0, no summer time, named UTC.
_UTC_FILE = b"TZif" + bytes(16) + pack(">6l", 0, 0, 0, 0, 1, 4) + pack(">lBB", 0, 0, 0) + b"UTC\0"


def zone(name: str) -> ZoneInfo:
    """Return the zone of this name. Raises ValueError if there is none."""
    try:
        return ZoneInfo(name)
    except ZoneInfoNotFoundError:
        if name == _UTC:
            return ZoneInfo.from_file(BytesIO(_UTC_FILE), key=_UTC)
        hint = "" if _has_database() else ", since this host has none: pip install tzdata"
        raise ValueError(f"timezone={name!r} is not in the time zone database{hint}") from None
    except (OSError, ValueError):  # a directory, or not a file name
        raise ValueError(f"timezone={name!r} is not in the time zone database") from None


def _has_database() -> bool:
    try:
        ZoneInfo(_UTC)
    except ZoneInfoNotFoundError:
        return False
    return True
