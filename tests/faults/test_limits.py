"""Order and limits while workers are killed −9 and started: none is ever broken, and everything is handled."""

import asyncio
import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from mainspring import Mainspring
from tests.faults.ledger import Execution
from tests.faults.limiting import GLOBAL_CONCURRENCY, KEY_CONCURRENCY, KEY_RATE, RATE, Step
from tests.faults.report import Report
from tests.faults.scene import Scene, scene_on
from tests.faults.waiting import until
from tests.faults.worker import build

ENGINES = ("postgres",)  # SQLite has a test of its own, with fewer processes
KEYS = 50
SECOND = 1_000_000
GROUPS = ("lanes", "doors", "taps")


@dataclass
class Found:
    """What became of the messages; all but the first three are 0 when all is well."""

    messages: int
    executed: int
    failed: int
    """Attempts that failed as asked."""
    buried: int
    """Messages that were killed with their processes until they counted as poison: three times as the only suspect."""
    lost: int
    order: int
    """Executions that began before those before them had ended."""
    concurrency: int
    """Executions that began while as many ran as may."""
    rate: int
    """Claims beyond what a second may have."""

    @property
    def flawless(self) -> bool:
        return not (self.lost or self.order or self.concurrency or self.rate)

    def line(self) -> str:
        return (
            f"keys={KEYS} messages={self.messages} executed={self.executed} failed={self.failed} "
            f"buried={self.buried} lost={self.lost} "
            f"order-violations={self.order} concurrency-violations={self.concurrency} rate-violations={self.rate}"
        )


@dataclass(frozen=True)
class Span:
    """From when until when somebody was at it; who was killed was at it until then."""

    n: int
    began: float
    ended: float


def judge(scene: Scene, expected: Counter[str]) -> Found:
    """Go by what the handlers themselves have written down, and by the claims' times of the database."""
    by_group: dict[str, list[Execution]] = defaultdict(list)
    for each in scene.executions():
        by_group[str(each.group)].append(each)
    done = {str(each.id) for each in _ended_well(by_group)}
    lanes, doors, taps = (by_group[group] for group in GROUPS)
    buried = scene.tables.buried()
    assert {each.kind for each in buried} <= {"poison"}, buried
    return Found(
        messages=expected.total(),
        executed=sum(map(len, by_group.values())),
        failed=sum(each.outcome == "failed" for each in lanes),
        buried=len(buried),
        lost=expected.total() - len(done | {str(each.id) for each in buried}),
        order=sum(_out_of_order(_spans(scene, each)) for each in _by_key(lanes)),
        concurrency=_crowded(_spans(scene, doors), GLOBAL_CONCURRENCY)
        + sum(_crowded(_spans(scene, each), KEY_CONCURRENCY) for each in _by_key(doors))
        + sum(_crowded(_spans(scene, each), 1) for each in _by_key(lanes)),
        rate=_too_often(taps, RATE) + sum(_too_often(each, KEY_RATE) for each in _by_key(taps)),
    )


def _ended_well(by_group: dict[str, list[Execution]]) -> Iterable[Execution]:
    return (each for group in by_group.values() for each in group if each.outcome == "ok")


def _by_key(executions: Iterable[Execution]) -> Iterable[list[Execution]]:
    keys: dict[str, list[Execution]] = defaultdict(list)
    for each in executions:
        keys[str(each.key)].append(each)
    return keys.values()


def _spans(scene: Scene, executions: Iterable[Execution]) -> list[Span]:
    spans = []
    for each in executions:
        ended = each.ended if each.ended is not None else scene.deaths[each.pid]
        spans.append(Span(each.n, each.began, ended))
    return sorted(spans, key=lambda span: span.began)


def _out_of_order(spans: Sequence[Span]) -> int:
    """How many began before one of their key that was published earlier had ended for good."""
    last: dict[int, float] = {}
    for span in spans:
        last[span.n] = max(last.get(span.n, 0.0), span.ended)
    return sum(any(ended > span.began for n, ended in last.items() if n < span.n) for span in spans)


def _crowded(spans: Sequence[Span], most: int) -> int:
    """How many began while so many others were at work."""
    return sum(
        sum(other.began <= span.began < other.ended for other in spans if other is not span) >= most for span in spans
    )


def _too_often(executions: Iterable[Execution], most: int) -> int:
    """How many claims came within a second of the one so many before them."""
    times = sorted(each.claimed for each in executions)
    return sum(later - earlier < SECOND for earlier, later in zip(times, times[most:], strict=False))


class Feeding:
    """Publishes by key, one after the other: the next when the last is stored.

    However fast it is done, there is something to do until ``enough`` is said: somebody must be at work to be killed.
    """

    def __init__(self, scene: Scene, rounds: int, taps: int) -> None:
        self.enough = False
        self._tables = scene.tables
        self._chance = scene.chance
        self._rounds = rounds
        self._taps = taps
        self.expected: Counter[str] = Counter()

    async def run(self, app: Mainspring) -> None:
        for n in itertools.count():
            if n >= self._rounds:
                await until("what was published to be done", lambda: self.enough or self._tables.live() < KEYS, 600)
                if self.enough:
                    return
            await self._publish(app, "lanes", n, KEYS)
            await self._publish(app, "doors", n, KEYS // 2)
            if n < self._taps:
                await self._publish(app, "taps", n, KEYS // 2)

    async def _publish(self, app: Mainspring, topic: str, n: int, keys: int) -> None:
        steps = [
            Step(n, self._chance.uniform(0.0, 0.03), fails=topic == "lanes" and (n + place) % 20 == 0)
            for place in range(keys)
        ]
        self.expected[topic] += keys
        await asyncio.gather(*(app.publish(topic, step, key=f"k{place}") for place, step in enumerate(steps)))


async def kill_and_feed(scene: Scene, feeding: Feeding, workers: int, kills: int) -> Found:
    await scene.workers(workers, limits=True)
    async with scene.publishing() as app:
        fed = asyncio.create_task(feeding.run(app))
        since = 0.0
        for _ in range(kills):
            victim = await scene.running(since)
            await until("two workers to be ready", lambda: len(scene.fleet.working(scene.fleet.members)) >= 2)
            scene.kill(victim)
            since = scene.deaths[victim.pid]
            scene.fleet.replace(victim)
        feeding.enough = True
        await fed
    await scene.drained(600)
    return judge(scene, feeding.expected)


@pytest.mark.timeout(1200)
async def test_order_and_limits_hold_while_workers_are_killed(scene: Scene, report: Report, large: bool) -> None:
    kills, feeding = (100, Feeding(scene, 120, 60)) if large else (4, Feeding(scene, 4, 3))

    found = await kill_and_feed(scene, feeding, 4, kills)

    report("order and limits, kill −9, PostgreSQL", f"seed={scene.seed} processes=4 kills={kills}", found.line())
    assert found.flawless, found
    assert found.failed
    assert found.executed > found.messages


@pytest.mark.timeout(600)
async def test_order_and_limits_hold_on_one_sqlite_file(tmp_path: Path, seed: int, report: Report, large: bool) -> None:
    with scene_on(tmp_path, seed, url=f"sqlite:///{tmp_path}/queue.db", schema="mainspring") as scene:
        kills, feeding = (30, Feeding(scene, 40, 20)) if large else (2, Feeding(scene, 2, 2))
        found = await kill_and_feed(scene, feeding, 2, kills)

        report("order and limits, kill −9, SQLite", f"seed={seed} processes=2 kills={kills}", found.line())
        assert found.flawless, found


async def test_workers_without_the_limits_are_reported(scene: Scene, report: Report) -> None:
    feeding = Feeding(scene, 6, 6)
    # All of it waits when they begin, so that nobody has to hurry to get it out of order.
    feeding.enough = True
    async with build(replace(scene.plan, limits=True)) as app:
        await app.declare()
        await feeding.run(app)
    await scene.workers(2, limits=True, bug="unlimited")
    await scene.drained()

    found = judge(scene, feeding.expected)

    report("teeth: no limits", f"seed={scene.seed}", found.line(), "(all three must be > 0)")
    assert found.order
    assert found.concurrency
    assert found.rate
