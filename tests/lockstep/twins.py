"""Memory and a database, told the same at once: every answer must be the same."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar
from uuid import UUID

from hypothesis.stateful import RuleBasedStateMachine

from mainspring.app.background import at_once
from mainspring.model.message import Claim, ClaimRequest, Delivery
from mainspring.model.verdict import Settlement
from mainspring.storage.contract import Storage
from mainspring.storage.memory import MemoryStorage
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
    """Memory is the specification; the other is the storage that a subclass opens."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = Runner()
        self.memory: Storage = MemoryStorage()
        self.real = self.runner.run(self.open_real())
        self.runner.run(self.memory.schema.migrate())
        self.claims: list[tuple[Claim, Claim]] = []
        self.new_ids = [UUID(int=number << 64 | 1) for number in range(100, 130)]
        self._met: set[UUID] = set()
        self.now = START
        self.turn(START)

    async def open_real(self) -> Storage:
        """An open, migrated, empty storage."""
        raise NotImplementedError

    async def close_real(self, real: Storage) -> None:
        """Let go of it."""
        await real.close()

    def teardown(self) -> None:
        self.runner.run(self.close_real(self.real))
        self.runner.close()

    # Both at once

    def turn(self, now: datetime) -> None:
        self.now = self.memory.now = self.real.now = now

    def both(self, act: Callable[[Storage], Coroutine[Any, Any, T]]) -> tuple[T, T]:
        return at_once(lambda: act(self.memory)), self.runner.run(act(self.real))

    def met(self, *ids: UUID) -> list[UUID]:
        """Those of them that have ever been published. Of all others there is nothing to compare but how slow it is."""

        async def known() -> None:
            for each in ids:
                if each not in self._met and await self.memory.ledger.find(each) is not None:
                    self._met.add(each)

        at_once(known)
        return [each for each in ids if each in self._met]

    def alike(
        self, act: Callable[[Storage], Coroutine[Any, Any, T]], seen: Callable[[T], Any] = lambda answer: answer
    ) -> T:
        memory, real = self.both(act)
        agree(seen(memory), seen(real))
        return memory

    def holding(self, memory: Delivery | None, real: Delivery | None) -> None:
        assert (real and alike.delivery(real)) == (memory and alike.delivery(memory))
        if memory is not None and real is not None:
            self.claims.append((memory.claim, real.claim))

    def pairs(self, memory: frozenset[Claim], real: frozenset[Claim]) -> None:
        known = {ours: theirs for theirs, ours in self.claims}
        assert {known[each] for each in real} == memory

    def take(self, wanted: Sequence[ClaimRequest], hold: timedelta) -> None:
        memory, real = self.both(lambda storage: storage.mailbox.claim(wanted, "node-1", hold))
        assert len(real) == len(memory)
        for ours, theirs in zip(memory, real, strict=True):
            self.holding(ours, theirs)

    def settle_pairs(self, batch: list[tuple[tuple[Claim, Claim], drawing.Settling]], owner: str = "node-1") -> None:
        memory, real = (
            self.runner.run(
                storage.mailbox.settle([Settlement(claims[side], *settling) for claims, settling in batch], owner)
            )
            for side, storage in enumerate((self.memory, self.real))
        )
        self.pairs(memory.lost, real.lost)
        self.pairs(memory.gone, real.gone)


def agree(memory: Any, real: Any) -> None:
    """Fail with the part that is out of step, not with everything there is."""
    if memory == real:
        return
    if isinstance(memory, dict):
        (memory, real), *_ = [(memory[part], real[part]) for part in memory if memory[part] != real[part]]
    raise AssertionError(f"out of step\n  memory: {memory}\n  real:   {real}")
