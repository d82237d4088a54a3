"""Messages from outside: stored with their marks, all or none, each once."""

import asyncio
from dataclasses import replace
from typing import Unpack, cast
from uuid import UUID

import pytest

from mainspring.model.errors import Rejected
from mainspring.model.inbox import InboxFilter, InboxKey, InboxReceipt
from mainspring.storage.contract import Storage
from tests.contract.acting import HOUR, NOON, TOPIC, DraftOptions, claim, declare, draft, turn

GROUP, SOURCE = "billing", "rabbitmq:orders"


async def receive(storage: Storage, *ids: str, **options: Unpack[DraftOptions]) -> set[str]:
    return set((await storage.inbox.receive(GROUP, SOURCE, {id: draft(TOPIC, **options) for id in ids})).stored)


async def stored(storage: Storage) -> list[UUID]:
    return [each.message_id for each in await claim(storage)]


async def marks(storage: Storage) -> dict[str, tuple[str, int]]:
    found = await storage.inbox.browse(InboxFilter(group=GROUP, source=SOURCE))
    return {each.message_id: (each.status, each.attempts) for each in found}


@pytest.mark.memory
@pytest.mark.psycopg
async def test_each_is_stored_and_marked_and_a_repeat_is_neither(storage: Storage) -> None:
    await declare(storage, "mailer", TOPIC)

    first = await receive(storage, "b", "a")
    turn(storage, HOUR)
    second = await receive(storage, "c", "a")

    assert (first, second) == ({"a", "b"}, {"c"})
    assert len(await stored(storage)) == 3
    assert await marks(storage) == {"a": ("done", 1), "b": ("done", 1), "c": ("done", 1)}
    a = next(each for each in await storage.inbox.browse(InboxFilter(message_id="a")))
    assert (a.first_seen_at, a.changed_at) == (NOON, NOON)


async def test_nothing_received_is_nothing_stored(storage: Storage) -> None:
    assert await storage.inbox.receive(GROUP, SOURCE, {}) == InboxReceipt()


async def test_the_same_id_of_another_source_or_for_another_group_is_another_message(storage: Storage) -> None:
    await declare(storage, "mailer", TOPIC)
    await receive(storage, "a")

    other = await storage.inbox.receive(GROUP, "kafka:orders", {"a": draft(TOPIC)})
    another = await storage.inbox.receive("mail", SOURCE, {"a": draft(TOPIC)})

    assert [*other.stored, *another.stored] == ["a", "a"]
    assert len(await stored(storage)) == 3


@pytest.mark.psycopg
async def test_one_that_failed_or_was_released_is_stored_again(storage: Storage) -> None:
    await declare(storage, "mailer", TOPIC)
    key = InboxKey(GROUP, SOURCE, "failed")
    await storage.inbox.admit(key, None, "processing", None)
    await storage.inbox.mark(key, 1, "seen", "no")
    await storage.inbox.admit(key._replace(message_id="dead"), None, "processing", None)
    await storage.inbox.mark(key._replace(message_id="dead"), 1, "dead", "no")
    await storage.inbox.admit(key._replace(message_id="running"), None, "processing", None)

    before = await receive(storage, "failed", "dead", "running")
    await storage.inbox.release(key._replace(message_id="dead"), "ann")
    after = await receive(storage, "failed", "dead", "running")

    assert (before, after) == ({"failed"}, {"dead"})
    assert await marks(storage) == {"failed": ("done", 2), "dead": ("done", 2), "running": ("processing", 1)}
    failed = next(each for each in await storage.inbox.browse(InboxFilter(message_id="failed")))
    assert failed.error is None
    assert len(await stored(storage)) == 2


async def test_what_is_received_for_one_group_reaches_that_group_alone(storage: Storage) -> None:
    await declare(storage, "mailer", TOPIC)
    await declare(storage, "billing", TOPIC)

    await receive(storage, "a", group="billing")

    assert await claim(storage) == []
    assert len(await claim(storage, "billing")) == 1


async def test_if_one_cannot_be_stored_none_is_and_none_is_marked(storage: Storage) -> None:
    await declare(storage, "mailer", TOPIC)
    bad = draft(TOPIC, headers={"name": cast("str", object())})

    with pytest.raises(TypeError):
        await storage.inbox.receive(GROUP, SOURCE, {"a": draft(TOPIC), "b": bad})

    assert await marks(storage) == {}
    assert await receive(storage, "a", "b") == {"a", "b"}


async def test_one_whose_id_is_that_of_another_message_is_rejected_and_none_of_its_batch_is_marked(
    storage: Storage,
) -> None:
    await declare(storage, "mailer", TOPIC)
    known = draft(TOPIC)
    await storage.mailbox.publish([known])
    other = replace(known, payload=b'"other"')

    with pytest.raises(Rejected, match=f"message {known.id} on {TOPIC} is not stored"):
        await storage.inbox.receive(GROUP, SOURCE, {"a": draft(TOPIC), "b": other})

    assert await marks(storage) == {}
    assert await stored(storage) == [known.id]


async def test_of_many_at_once_one_stores_each(storage: Storage) -> None:
    await declare(storage, "mailer", TOPIC)
    ids = [f"evt_{number}" for number in range(50)]

    answers = await asyncio.gather(*(receive(storage, *(ids if turn % 2 else ids[::-1])) for turn in range(8)))

    assert sorted(id for answer in answers for id in answer) == sorted(ids)
    assert len(await stored(storage)) == len(ids)


@pytest.mark.memory
@pytest.mark.psycopg
async def test_a_repeat_with_another_payload_is_noted_and_reported_once(storage: Storage) -> None:
    await receive(storage, "a", "b")
    turn(storage, HOUR)

    answers = [
        await storage.inbox.receive(GROUP, SOURCE, {"a": draft(TOPIC, payload=b"2"), "b": draft(TOPIC)})
        for _ in range(2)
    ]

    assert answers == [InboxReceipt(mismatched=frozenset({"a"})), InboxReceipt()]
    found = await storage.inbox.browse(InboxFilter(group=GROUP, source=SOURCE))
    assert {each.message_id: each.mismatched_at for each in found} == {"a": NOON + HOUR, "b": None}


@pytest.mark.psycopg
async def test_one_that_failed_and_comes_with_another_payload_is_stored_and_is_no_repeat(storage: Storage) -> None:
    await declare(storage, "mailer", TOPIC)
    key = InboxKey(GROUP, SOURCE, "a")
    await storage.inbox.admit(key, b"another", "processing", None)
    await storage.inbox.mark(key, 1, "seen", "no")

    answer = await storage.inbox.receive(GROUP, SOURCE, {"a": draft(TOPIC)})

    assert answer == InboxReceipt(stored=frozenset({"a"}))
    assert len(await stored(storage)) == 1
