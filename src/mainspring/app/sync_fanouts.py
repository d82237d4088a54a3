"""``app.sync.fanouts``: fan-outs for blocking callers."""

from __future__ import annotations

from mainspring.app.fanouts import Cursors, Fanouts, FanoutView, Policies, Views
from mainspring.app.leases import Wait
from mainspring.app.planning import PlannedWindow
from mainspring.app.sync_desk import Running
from mainspring.model.fanout import FanoutPolicy
from mainspring.timing.duration import Duration


class SyncFanouts:
    """As ``app.fanouts``, without await."""

    def __init__(self, fanouts: Fanouts, run: Running) -> None:
        self._fanouts = fanouts
        self._run = run

    def list(self) -> Views:
        """Every work of every fan-out, by topic and work."""
        return self._run(self._fanouts.list, "fanouts.list()")

    def show(self, topic: str, work: str | None = None) -> FanoutView:
        """One work of a fan-out, or all works of a planner that names them. Raises BadOption when there is none."""
        return self._run(lambda: self._fanouts.show(topic, work), "fanouts.show(…)")

    def cursors(
        self, topic: str, work: str, *, behind: bool = False, after: str | None = None, limit: int = 50
    ) -> Cursors:
        """How far each shard has come, by shard. See ``app.fanouts.cursors``."""
        fanouts = self._fanouts
        return self._run(
            lambda: fanouts.cursors(topic, work, behind=behind, after=after, limit=limit), "fanouts.cursors(…)"
        )

    def policies(self, topic: str, work: str, *, after: str | None = None, limit: int = 50) -> Policies:
        """What was set at run time: for the whole work first, then by shard."""
        fanouts = self._fanouts
        return self._run(lambda: fanouts.policies(topic, work, after=after, limit=limit), "fanouts.policies(…)")

    def edit(
        self,
        topic: str,
        work: str,
        shard: str | None = None,
        *,
        every: Duration | None = None,
        jitter: Duration | None = None,
        enabled: bool | None = None,
        by: str = "app",
    ) -> FanoutPolicy:
        """Set how a shard is planned from the next window on, or all shards of the work. See ``app.fanouts.edit``."""
        fanouts = self._fanouts
        return self._run(
            lambda: fanouts.edit(topic, work, shard, every=every, jitter=jitter, enabled=enabled, by=by),
            "fanouts.edit(…)",
        )

    def reset(self, topic: str, work: str, shard: str | None = None, *, by: str = "app") -> bool:
        """Remove what ``edit`` has set for the shard, or for the whole work. False: there was nothing."""
        return self._run(lambda: self._fanouts.reset(topic, work, shard, by=by), "fanouts.reset(…)")

    def run(
        self, topic: str, work: str | None = None, shard: str | None = None, *, wait: Wait = None, by: str = "app"
    ) -> PlannedWindow:
        """Plan it now, in this process, with now as the window. See ``app.fanouts.run``."""
        return self._run(lambda: self._fanouts.run(topic, work, shard, wait=wait, by=by), "fanouts.run(…)")
