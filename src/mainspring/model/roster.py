"""Names on the roster, where workers of several apps may be called the same."""

from __future__ import annotations


def seat(app: str, name: str) -> str:
    """The name on the roster of an app's worker, the app as it is stored."""
    return f"{app}/{name}"


def seated(app: str, seat: str) -> str:
    """A worker's own name. One of an earlier release is on the roster by that."""
    return seat.removeprefix(f"{app}/")
