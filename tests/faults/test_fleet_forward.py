"""Messages from one database of a fleet to another: each has one effect there, whatever is lost or killed between."""

import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

import asyncpg
import psycopg
import pytest

from mainspring import Fleet
from tests.faults.forwarding import TOPIC, fleet
from tests.faults.nursery import Born, nursery
from tests.faults.proxy import Proxy, proxy_to
from tests.faults.report import Report
from tests.faults.waiting import until
from tests.services.postgres import new_database

_STORE = r"inbox_receive"
_EACH = 10
"""How many messages are sent in one transaction, which another one that rolls back precedes."""


@dataclass
class Found:
    """What came of the messages of committed transactions; those of the others have the numbers below zero."""

    sent: set[int]
    stored: int
    effects: Counter[int]

    @property
    def lost(self) -> set[int]:
        return self.sent - set(self.effects)

    @property
    def doubled(self) -> list[int]:
        return [number for number, times in self.effects.items() if times > 1]

    @property
    def flawless(self) -> bool:
        return not (self.lost or self.doubled or set(self.effects) - self.sent)

    def line(self) -> str:
        return (
            f"sent={len(self.sent)} stored={self.stored} effects={self.effects.total()} lost={len(self.lost)} "
            f"doubled={len(self.doubled)}"
        )


@dataclass
class Pair:
    """Two databases of a fleet, what is published in one for the other, and the worker of both in a process."""

    urls: dict[str, str]
    proxy: Proxy
    log: Path
    bug: str = ""
    sent: set[int] = field(default_factory=set)
    worker: Born | None = None

    def start(self) -> None:
        """Start the worker; it reaches the second database through the proxy."""
        urls = {**self.urls, "bolt": self.proxy.url}
        with self.log.open("ab") as log:
            self.worker = nursery().start("tests.faults.forwarding", json.dumps([urls, self.bug]), log)

    def kill(self) -> None:
        """Kill −9."""
        if self.worker is not None:
            self.worker.kill()
            self.worker.wait(30)

    async def publish(self, publisher: Fleet) -> None:
        """Send some in a transaction that commits, after as many in one that does not."""
        connection = await asyncpg.connect(self.urls["acme"])
        numbers = range(len(self.sent) + 1, len(self.sent) + 1 + _EACH)
        undone = connection.transaction()
        await undone.start()
        await publisher.publish_many([(TOPIC, -each) for each in numbers], database="bolt", tx=connection)
        await undone.rollback()
        async with connection.transaction():
            for each in numbers:
                await publisher.publish(TOPIC, each, database="bolt", tx=connection)
        await connection.close()
        self.sent.update(numbers)

    def waiting(self) -> int:
        """How many messages wait in the first database, for whatever group."""
        return self._number("acme", "SELECT count(*) FROM mainspring.delivery")

    def settled(self) -> bool:
        """Whether nothing is on its way any more."""
        return not (self.waiting() or self._number("bolt", "SELECT count(*) FROM mainspring.delivery"))

    def found(self) -> Found:
        with psycopg.connect(self.urls["bolt"]) as connection:
            effects = Counter(number for (number,) in connection.execute("SELECT number FROM effect"))
        return Found(self.sent, self._number("bolt", "SELECT count(*) FROM mainspring.message"), effects)

    def _number(self, name: str, query: str) -> int:
        with psycopg.connect(self.urls[name]) as connection:
            row = connection.execute(query).fetchone()
        assert row is not None
        return int(row[0])


@asynccontextmanager
async def pair_on(server: str, folder: Path, bug: str = "") -> AsyncIterator[Pair]:
    with new_database(server, f"a_{uuid4().hex[:12]}") as acme, new_database(server, f"b_{uuid4().hex[:12]}") as bolt:
        urls = {"acme": acme, "bolt": bolt}
        assert (await fleet(urls).migrate()).ok
        assert (await fleet(urls).declare()).ok
        with psycopg.connect(bolt, autocommit=True) as connection:
            connection.execute("CREATE TABLE effect (number integer NOT NULL)")
        with proxy_to(bolt) as proxy:
            pair = Pair(urls, proxy, folder / "log", bug)
            try:
                yield pair
            finally:
                pair.kill()


@pytest.fixture
async def pair(postgres_url: str, tmp_path: Path) -> AsyncIterator[Pair]:
    async with pair_on(postgres_url, tmp_path) as made:
        yield made


async def lose_replies(pair: Pair, rounds: int) -> Found:
    """Store so many batches whose replies are lost."""
    pair.start()
    async with fleet(pair.urls) as publisher:
        for round in range(1, rounds + 1):
            pair.proxy.lose_next_answer(_STORE)
            await pair.publish(publisher)
            await until("the reply to be lost", lambda: pair.proxy.lost >= round)  # noqa: B023
        await until("everything to be settled", pair.settled)
    return pair.found()


async def kill(pair: Pair, rounds: int) -> Found:
    """Kill the worker so many times when a batch is stored and not settled."""
    async with fleet(pair.urls) as publisher:
        for _ in range(rounds):
            pair.proxy.halt_at_next(_STORE, "after")
            pair.start()
            await pair.publish(publisher)
            await until("the worker to halt", pair.proxy.halted.is_set)
            assert pair.waiting() == _EACH  # stored there, and not settled here
            pair.kill()
            pair.start()
            await until("everything to be settled", pair.settled)
            pair.kill()
    return pair.found()


async def test_what_is_stored_and_whose_reply_is_lost_is_sent_again_and_has_one_effect(
    pair: Pair, report: Report, large: bool
) -> None:
    rounds = 50 if large else 5

    found = await lose_replies(pair, rounds)

    report("fleet, reply to a forward lost", f"replies-lost={pair.proxy.lost}", found.line())
    assert found.flawless, found
    assert found.stored == found.effects.total() == rounds * _EACH
    assert pair.proxy.lost == rounds


async def test_what_is_stored_and_not_settled_when_its_worker_is_killed_has_one_effect(
    pair: Pair, report: Report, large: bool
) -> None:
    kills = 20 if large else 3

    found = await kill(pair, kills)

    report("fleet, kill −9 between store and settle", f"kills={kills}", found.line())
    assert found.flawless, found
    assert found.stored == found.effects.total() == kills * _EACH


@pytest.mark.parametrize(("bug", "fault"), [("unmarked", "doubled"), ("hasty", "lost")])
async def test_a_worker_without_marks_or_one_that_settles_first_is_found_out(
    postgres_url: str, tmp_path: Path, report: Report, bug: str, fault: str
) -> None:
    async with pair_on(postgres_url, tmp_path, bug) as pair:
        if bug == "unmarked":
            found = await lose_replies(pair, 1)
        else:
            async with fleet(pair.urls) as publisher:
                pair.start()
                await pair.publish(publisher)
                await until("everything to count as sent", lambda: not pair.waiting())
                pair.kill()
            found = pair.found()

    report(f"teeth: fleet, forwards {bug}", found.line(), f"(must be {fault}>0)")
    assert getattr(found, fault)
    assert not found.flawless
