"""Compact numbers: rates, durations, and a sparkline."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

_BARS = " ▁▂▃▄▅▆▇█"


def rate(per_second: float) -> str:
    """Format a rate per second in few digits."""
    if per_second <= 0:
        return "·"
    if per_second >= 10_000:  # noqa: PLR2004
        return f"{per_second / 1000:.0f}k"
    return f"{per_second:,.0f}" if per_second >= 100 else f"{per_second:.1f}" if per_second >= 0.1 else "<0.1"  # noqa: PLR2004


def span(length: timedelta) -> str:
    """Format a duration briefly: ``3 ms``, ``1.2 s``, ``4m 05s``, ``3h 12m``, ``2d 4h``."""
    seconds = length.total_seconds()
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms" if seconds >= 0.001 else f"{seconds * 1000:.1f} ms"  # noqa: PLR2004
    if seconds < 10:  # noqa: PLR2004
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:  # noqa: PLR2004
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:  # noqa: PLR2004
        return f"{minutes}m {rest:02d}s"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:  # noqa: PLR2004
        return f"{hours}h {minutes:02d}m"
    return f"{hours // 24}d {hours % 24}h"


def sparkline(values: Sequence[int]) -> str:
    """Draw a bar for each value, relative to the highest; every value above 0 is visible."""
    top = max(values, default=0)
    if not top:
        return ""
    return "".join(_BARS[max(1, round((len(_BARS) - 1) * value / top))] if value else " " for value in values)
