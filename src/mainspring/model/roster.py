"""Names on the roster, on which workers of several apps may have the same name."""

from __future__ import annotations


def seat(app: str, name: str) -> str:
    """Return the roster name of an app's worker, with the app as it is stored."""
    return f"{app}/{name}"


def seated(app: str, seat: str) -> str:
    """Return a worker's own name. Earlier releases used only that on the roster."""
    return seat.removeprefix(f"{app}/")
