"""The hours at which things happen in tests that begin at noon."""

from datetime import UTC, datetime, timedelta

from mainspring import Testing

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def hours(kit: Testing, group: str) -> list[float]:
    """How many hours after noon this group ran."""
    return [(ran.at - NOON) / HOUR for ran in kit.runs if ran.group == group]
