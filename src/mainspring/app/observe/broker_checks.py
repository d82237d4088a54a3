"""Health checks of brokers: whether the workers of this process are connected to those of their routes and intakes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from mainspring.model.health import Check, HealthLimits, Status, built_in
from mainspring.timing.duration import spell

if TYPE_CHECKING:
    from mainspring.runtime.worker import Worker


def of_brokers(workers: Sequence[Worker], limits: HealthLimits) -> list[Check]:
    """Check the connections to brokers; nothing for workers without any."""
    links = {name: link for worker in workers for name, link in worker.links().items()}
    if not links:
        return []
    down = {name: timedelta(seconds=link.down_for) for name, link in links.items() if link.down_for is not None}
    degraded, unhealthy = limits.broker_down
    longest = max(down.values(), default=timedelta())
    status: Status = "unhealthy" if longest >= unhealthy else "degraded" if longest >= degraded else "healthy"
    if status == "healthy":
        return [built_in("brokers", status, f"{len(links) - len(down)} of {len(links)} connected, or not used yet")]
    name = max(down, key=lambda each: down[each])
    summary = f"{name} has not been connected for {spell(_whole(longest))}: {links[name].error}"
    others = f"; {len(down) - 1} more are not" if len(down) > 1 else ""
    return [built_in("brokers", status, f"{summary}{others}", {each: str(links[each].error) for each in down})]


def _whole(length: timedelta) -> timedelta:
    return timedelta(seconds=int(length.total_seconds()))
