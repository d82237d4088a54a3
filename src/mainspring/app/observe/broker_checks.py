"""Health checks of brokers: whether the workers of this process are connected, and keep up with their sources."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from mainspring.model.health import Check, HealthLimits, Status, built_in, worst
from mainspring.timing.duration import spell

if TYPE_CHECKING:
    from mainspring.brokers.link import Link
    from mainspring.runtime.worker import Worker


def of_brokers(workers: Sequence[Worker], limits: HealthLimits) -> list[Check]:
    """Check the connections to brokers, and how much waits there; nothing for workers without any."""
    links = [each for worker in workers for each in worker.links()]
    if not links:
        return []
    found = (_connected(links, limits), _lag(links, limits))
    status = worst(each.status for each in found)
    summary = "; ".join(each.summary for each in found if each.status == status and each.summary)
    return [built_in("brokers", status, summary, {**found[1].data, **found[0].data})]


def _connected(links: Sequence[tuple[str, Link]], limits: HealthLimits) -> Check:
    down = {name: (timedelta(seconds=link.down_for), link) for name, link in links if link.down_for is not None}
    degraded, unhealthy = limits.broker_down
    longest = max((length for length, _ in down.values()), default=None)
    if longest is None or longest < min(degraded, unhealthy):
        return built_in("brokers", "healthy", f"{len(links) - len(down)} of {len(links)} connected, or not used yet")
    status: Status = "unhealthy" if longest >= unhealthy else "degraded"
    name = max(down, key=lambda each: down[each][0])
    summary = f"{name} has not been connected for {spell(_whole(longest))}: {down[name][1].error}"
    others = f"; {len(down) - 1} more are not" if len(down) > 1 else ""
    return built_in(
        "brokers", status, f"{summary}{others}", {each: str(link.error) for each, (_, link) in down.items()}
    )


def _lag(links: Sequence[tuple[str, Link]], limits: HealthLimits) -> Check:
    degraded, unhealthy = limits.broker_lag
    high = {name: link.lag for name, link in links if link.lag is not None and link.lag > degraded}
    if not high:
        return built_in("brokers", "healthy", "")
    name = max(high, key=lambda each: high[each])
    status: Status = "unhealthy" if unhealthy is not None and high[name] > unhealthy else "degraded"
    return built_in("brokers", status, f"{high[name]:,} messages wait in the broker for {name}", high)


def _whole(length: timedelta) -> timedelta:
    return timedelta(seconds=int(length.total_seconds()))
