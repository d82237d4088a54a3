"""SQLite and PostgreSQL, given the same calls: every answer must be the same."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from shutil import copy
from typing import Any, TypeVar
from uuid import UUID

from hypothesis.stateful import RuleBasedStateMachine

from mainspring.model.message import Claim, ClaimRequest, Delivery
from mainspring.model.verdict import Settlement
from mainspring.storage.contract import Storage
from mainspring.storage.sqlite import SqliteStorage
from tests.lockstep import alike, drawing

T = TypeVar("T")
START = datetime(2030, 1, 1, 12, tzinfo=UTC)
FIRST_GROUPS = [("mailer", ("orders.*",)), ("analytics", ("orders.placed", "orders"))]


class Runner:
    """An `asyncio.Runner` that leaves the signals alone: seeing to them takes longer than most of what is run here."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner()
        self._loop = self._runner.get_loop()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._loop.run_until_complete(work)

    def close(self) -> None:
        self._runner.close()


class Twins(RuleBasedStateMachine):
    """A new file for every history; one open PostgreSQL for all, since a new connection plans every statement again."""

    migrated: Path
    """An SQLite file with its tables, to be copied."""
    runner: Runner
    postgres: Storage
    empty: Callable[[], None]
    """Deletes every row of the PostgreSQL."""
    numbers = count()

    def __init__(self) -> None:
        super().__init__()
        self.empty()
        file = copy(self.migrated, self.migrated.with_name(f"{next(self.numbers)}.db"))
        self.sqlite: Storage = SqliteStorage(str(file))
        self.runner.run(self.sqlite.open())
        self.claims: list[tuple[Claim, Claim]] = []
        self.new_ids = [UUID(int=number << 64 | 1) for number in range(100, 130)]
        self._met: set[UUID] = set()
        self.now = START
        self.turn(START)

    def teardown(self) -> None:
        self.runner.run(self.sqlite.close())

    # Both at once

    def turn(self, now: datetime) -> None:
        self.now = self.sqlite.now = self.postgres.now = now

    def both(self, act: Callable[[Storage], Coroutine[Any, Any, T]]) -> tuple[T, T]:
        return self.runner.run(act(self.sqlite)), self.runner.run(act(self.postgres))

    def met(self, *ids: UUID) -> list[UUID]:
        """Those of them that have ever been published. Of all others there is nothing to compare but how slow it is."""

        async def known() -> None:
            for each in ids:
                if each not in self._met and await self.sqlite.ledger.find(each) is not None:
                    self._met.add(each)

        self.runner.run(known())
        return [each for each in ids if each in self._met]

    def alike(
        self, act: Callable[[Storage], Coroutine[Any, Any, T]], seen: Callable[[T], Any] = lambda answer: answer
    ) -> T:
        sqlite, postgres = self.both(act)
        agree(seen(sqlite), seen(postgres))
        return sqlite

    def holding(self, sqlite: Delivery | None, postgres: Delivery | None) -> None:
        assert (postgres and alike.delivery(postgres)) == (sqlite and alike.delivery(sqlite))
        if sqlite is not None and postgres is not None:
            self.claims.append((sqlite.claim, postgres.claim))

    def pairs(self, sqlite: frozenset[Claim], postgres: frozenset[Claim]) -> None:
        known = {ours: theirs for theirs, ours in self.claims}
        assert {known[each] for each in postgres} == sqlite

    def take(self, wanted: Sequence[ClaimRequest], hold: timedelta) -> None:
        sqlite, postgres = self.both(lambda storage: storage.mailbox.claim(wanted, "node-1", hold))
        assert len(postgres) == len(sqlite)
        for ours, theirs in zip(sqlite, postgres, strict=True):
            self.holding(ours, theirs)

    def settle_pairs(self, batch: list[tuple[tuple[Claim, Claim], drawing.Settling]], owner: str = "node-1") -> None:
        sqlite, postgres = (
            self.runner.run(
                storage.mailbox.settle([Settlement(claims[side], *settling) for claims, settling in batch], owner)
            )
            for side, storage in enumerate((self.sqlite, self.postgres))
        )
        self.pairs(sqlite.lost, postgres.lost)
        self.pairs(sqlite.gone, postgres.gone)


def agree(sqlite: Any, postgres: Any) -> None:
    """Fail with the part that is out of step, not with everything there is."""
    if sqlite == postgres:
        return
    if isinstance(sqlite, dict):
        (sqlite, postgres), *_ = [(sqlite[part], postgres[part]) for part in sqlite if sqlite[part] != postgres[part]]
    raise AssertionError(f"out of step\n  sqlite:   {sqlite}\n  postgres: {postgres}")
