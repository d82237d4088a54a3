"""The primary is killed −9 and an asynchronous standby promoted, which hands out seqs and epochs again.

Workers and leases outlive it, with claims in hand on messages that the standby never got. Under the same seq and epoch
others hold messages that were committed on the new primary: none of those is touched, lost or settled by a survivor.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest

from mainspring import Lease, Mainspring
from mainspring.model.errors import LeaseLost
from tests.faults.fleet import Member
from tests.faults.plan import NEVER_LAPSES
from tests.faults.proxy import Proxy, proxy_to
from tests.faults.report import Report
from tests.faults.scene import Scene, scene_on
from tests.faults.tables import tables_of
from tests.faults.waiting import until
from tests.services.cluster import Cluster
from tests.services.postgres import private_server, standby_of

pytestmark = pytest.mark.timeout(600)

_SCHEMA = "mainspring"
_LEASE = "reports"

Twin = tuple[int, int]
"""A seq and an epoch."""


@dataclass
class Pair:
    """A primary, its standby, and the way to whichever of them is the primary."""

    primary: Cluster
    standby: Cluster
    proxy: Proxy

    async def cut_off(self) -> None:
        """Let the standby have all there is, and nothing more."""
        (end,) = self._ask(self.primary, "SELECT pg_current_wal_lsn()")
        await until("the standby to have it all", lambda: self._behind(end) <= 0)
        self.do(self.standby, "ALTER SYSTEM SET primary_conninfo = ''")
        self.do(self.standby, "SELECT pg_reload_conf()")
        await until("the stream to end", lambda: not self._rows(self.standby, "SELECT FROM pg_stat_wal_receiver"))

    def fail_over(self) -> None:
        """Kill the primary and promote the standby; nobody is led there yet."""
        self.primary.kill()
        (promoted,) = self._ask(self.standby, "SELECT pg_promote(true, 60)")
        assert promoted

    def lead(self) -> None:
        """Let those that go through the proxy reach the new primary."""
        self.proxy.lead_to(self.standby.url)
        self.proxy.cut()

    def last_seq(self, server: Cluster) -> int:
        """The seq that its next message comes after."""
        (last,) = self._ask(server, f"SELECT last_value FROM {_SCHEMA}.delivery_seq_seq")
        return int(last)

    def in_hand(self, server: Cluster) -> dict[Twin, UUID]:
        rows = self._rows(server, f"SELECT seq, epoch, message_id FROM {_SCHEMA}.delivery WHERE held_by IS NOT NULL")
        return {(seq, epoch): id for seq, epoch, id in rows}

    def counted(self) -> int:
        """How many the workers on the roster have said they have in hand."""
        (count,) = self._ask(self.standby, f"SELECT coalesce(sum(in_hand), 0) FROM {_SCHEMA}.worker")
        return int(count)

    def _behind(self, end: str) -> int:
        (behind,) = self._ask(self.standby, f"SELECT pg_wal_lsn_diff('{end}', pg_last_wal_replay_lsn())")
        return int(behind)

    def _ask(self, server: Cluster, query: str) -> tuple[Any, ...]:
        (row,) = self._rows(server, query)
        return row

    def _rows(self, server: Cluster, query: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(server.url, autocommit=True) as connection:
            return connection.execute(query).fetchall()

    def do(self, server: Cluster, statement: str) -> None:
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute(statement)


@contextmanager
def pair(tmp_path: Path) -> Iterator[Pair]:
    with private_server(tmp_path) as primary:
        (tmp_path / "standby").mkdir()
        with standby_of(primary, tmp_path / "standby") as standby, proxy_to(primary.url) as proxy:
            yield Pair(primary, standby, proxy)


async def start(scene: Scene, count: int, concurrency: int, url: str) -> None:
    plan = replace(scene.plan, concurrency=concurrency, claim_time=NEVER_LAPSES, url=url)
    for _ in range(count):
        member = Member(plan, Path(plan.folder) / f"worker-{len(scene.fleet.ever)}.log", "tests.faults.survivor")
        scene.fleet.members.append(member)
        scene.fleet.ever.append(member)


def begun(scene: Scene, ids: list[UUID]) -> int:
    """How many of them were ever in hand."""
    return len({each.id for each in scene.executions()} & set(ids))


def ended(scene: Scene, ids: list[UUID]) -> int:
    """How many of them were handled to their end."""
    return len({each.id for each in scene.executions() if each.outcome == "ok"} & set(ids))


async def hold_again(app: Mainspring, both: Pair, lost: Lease) -> tuple[int, int]:
    """Let another have the lease, under its own epoch, then under the survivor's, who is refused: so often."""
    lease = await app.leases.acquire(_LEASE, ttl="1h")
    assert lease is not None
    refused = 0
    for epoch in (lease.epoch, lost.epoch):
        both.do(both.standby, f"UPDATE {_SCHEMA}.lease SET epoch = {epoch}")
        async with await psycopg.AsyncConnection.connect(both.standby.url) as tx:
            try:
                await lost.confirm(tx=tx)
            except LeaseLost:
                refused += 1
    return lease.epoch, refused


async def test_survivors_touch_nothing_that_was_committed_on_the_new_primary(
    tmp_path: Path, seed: int, report: Report, large: bool
) -> None:
    count = 200 if large else 20
    with (
        pair(tmp_path) as both,
        scene_on(tmp_path, seed, url=both.proxy.url, schema=_SCHEMA, direct=both.primary.url) as scene,
    ):
        async with scene.publishing() as app:
            await start(scene, 2, 2 * count, both.proxy.url)
            await scene.fleet.ready()
            await scene.publish(app, scene.jobs(10))
            await scene.drained()
            await both.cut_off()

            # A sequence is logged in advance: what the standby goes on from, the primary has to come to first.
            begins = both.last_seq(both.standby)
            while both.last_seq(both.primary) < begins:
                await scene.publish(app, scene.jobs(8))
            stale = await scene.publish(app, scene.jobs(count, act="hold"))
            await until("all of them to be in hand", lambda: begun(scene, stale) == count)
            survivor = await app.leases.acquire(_LEASE, ttl="1h")
            assert survivor is not None
            claims = {twin for twin, id in both.in_hand(both.primary).items() if id in stale}

            both.fail_over()
            scene.plan.frozen.touch()
            await until("verdicts that wait for a database", lambda: ended(scene, stale) == count)
            async with Mainspring(both.standby.url, name="clients", schema=_SCHEMA) as promoted:
                jobs = scene.jobs(max(seq for seq, _ in claims) - begins, act="hang")
                # The last few are left to the survivors themselves: one of them may get the very numbers it has.
                taken = len(jobs) - count // 4
                await start(scene, 1, taken, both.standby.url)
                fresh = await scene.publish(promoted, jobs)
                await until("a worker to have most of them", lambda: begun(scene, fresh) == taken)
                twins = claims & both.in_hand(both.standby).keys()
                both.lead()
                await until("all of them to be in hand", lambda: begun(scene, fresh) == len(fresh))
                await until("the stale verdicts to be answered for", lambda: both.counted() == len(fresh))
                same = claims & both.in_hand(both.standby).keys()

                scene.open_gate()
                scene.tables = tables_of(both.standby.url, _SCHEMA)
                await scene.drained()
                epoch, refused = await hold_again(promoted, both, survivor)
        ends = [run for run in scene.tables.runs() if run.status == "done"]
        mixed = [run for run in ends if run.output != str(run.id)]
        done = Counter(run.id for run in ends if run.output == str(run.id))
        missing = [id for id in fresh if done[id] != 1]
        scene.tables.close()

    report(
        "failover, PostgreSQL: primary killed −9, asynchronous standby promoted",
        f"seed={seed} committed={len(fresh)} same-seq-and-epoch={len(same)}",
        f"lost={len(missing)} stale={len(mixed)} lease-refused={refused} lease-epoch={survivor.epoch}<{epoch}",
    )
    assert len(twins) >= count // 2, "the new primary was to hand out the same numbers to another"
    assert (missing, mixed) == ([], [])
    assert refused == 2
    assert epoch > survivor.epoch, "a fence that was handed to others has gone back"
