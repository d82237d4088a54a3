"""Storing what is to be one of its kind: by itself, and again after an outage under the same id."""

import asyncio
from uuid import uuid4

import pytest

from mainspring.app.batcher import PublishBatcher
from mainspring.model.errors import SchemaMissing, StorageError, StorageUnavailable
from mainspring.model.message import Draft, Receipt, UniqueKey
from mainspring.storage.memory import MemoryStorage
from mainspring.timing.clock import HandClock
from tests.unit.app.stage import NOON, Patience

ONE = UniqueKey(b"one")


class Stage:
    """A publisher on memory whose answers get lost."""

    def __init__(self) -> None:
        self.storage = MemoryStorage()
        self.clock = HandClock(NOON)
        self.sleep = Patience(self.clock)
        self.rung = 0
        self.calls = 0
        self.after: list[Exception] = []
        self.batcher = PublishBatcher(self.storage, self.clock, self._ring, self.sleep)
        self._store = self.storage.mailbox.publish_unique
        self.storage.mailbox.publish_unique = self._moody  # type: ignore[method-assign]

    def _ring(self) -> None:
        self.rung += 1

    async def _moody(self, draft: Draft, key: UniqueKey) -> Receipt:
        self.calls += 1
        receipt = await self._store(draft, key)
        if self.after:
            raise self.after.pop(0)
        return receipt


def draft() -> Draft:
    return Draft(uuid4(), "a", b"1")


async def test_each_goes_by_itself_and_only_what_is_stored_wakes() -> None:
    stage, drafts = Stage(), [draft() for _ in range(5)]

    receipts = await asyncio.gather(*(stage.batcher.publish_unique(each, ONE) for each in drafts))

    assert [each.status for each in receipts] == ["stored", *["duplicate"] * 4]
    assert {each.id for each in receipts} == {drafts[0].id}
    assert (stage.calls, stage.rung) == (5, 1)


async def test_a_lost_answer_is_asked_for_again_and_known_as_our_own() -> None:
    stage, one = Stage(), draft()
    stage.after = [StorageUnavailable("cut"), StorageUnavailable("cut")]

    receipt = await stage.batcher.publish_unique(one, ONE)

    assert receipt == Receipt(one.id, "stored")
    assert (stage.calls, len(stage.sleep.naps), stage.rung) == (3, 2, 1)


async def test_an_outage_is_waited_out_for_a_while() -> None:
    stage = Stage()
    stage.after = [StorageUnavailable("away")] * 100

    with pytest.raises(StorageUnavailable, match="away"):
        await stage.batcher.publish_unique(draft(), ONE)

    assert 1 < stage.calls < 100


async def test_missing_tables_say_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    async def check() -> None:
        raise SchemaMissing(0, 1)

    stage = Stage()
    monkeypatch.setattr(stage.storage.schema, "check", check)
    stage.after = [StorageError("no such table")]

    with pytest.raises(SchemaMissing):
        await stage.batcher.publish_unique(draft(), ONE)
