"""The health check of messages for other databases of a fleet: whether some have been put off for long."""

from __future__ import annotations

from mainspring.app.names import FORWARDS
from mainspring.model.health import Check, HealthLimits, built_in
from mainspring.model.search import Filter
from mainspring.model.views import Tally
from mainspring.storage.contract import Ledger
from mainspring.timing.duration import spell

_MOST = 500


async def of_forwards(ledger: Ledger, tally: Tally, limits: HealthLimits) -> list[Check]:
    """Check what waits for databases that cannot be used; nothing where no fleet has a group."""
    since = tally.now - limits.overdue_after
    groups = [each for each in tally.groups if each.group.startswith(f"{FORWARDS}.")]
    waiting: dict[str, int] = {}
    for each in groups:
        # They are due at once, so what is scheduled was put off.
        if each.scheduled:
            sought = Filter(state="scheduled", group=each.group, until=since, limit=_MOST)
            waiting[each.group] = len((await ledger.browse(sought)).rows)
    count, late = sum(waiting.values()), f"put off for longer than {spell(limits.overdue_after)}"
    summary, data = f"{count:,} for other databases {late}", {"count": count, "groups": waiting}
    if not count:
        return [built_in("forwards", "healthy", summary, data)] if groups else []
    more = " or more" if count >= _MOST else ""
    hint = (
        f"{count:,}{more} messages for other databases {late}: the log of the fleet's workers says which cannot be "
        f"used; see `mainspring messages list --group {max(waiting, key=lambda each: waiting[each])}`"
    )
    return [built_in("forwards", "degraded", hint, data)]
