"""A known id is a repetition only of the same message: with another topic or payload it is told apart."""

from dataclasses import replace
from uuid import uuid4

import pytest

from mainspring.model.join import Join, follower_id
from mainspring.model.message import Conflict, Draft, UniqueKey
from mainspring.model.verdict import DONE, Settlement
from mainspring.storage.contract import Storage
from tests.contract.acting import NOON, TOPIC, WORKER, claim, claim_one, declare, draft, settle
from tests.contract.scheduling import keep, leaving, look, occurrence, schedule

pytestmark = pytest.mark.psycopg

ORDER = draft(group="mailer", payload=b'{"order":42}')


async def test_the_same_message_again_is_no_conflict(storage: Storage) -> None:
    await storage.mailbox.publish([ORDER])

    again = await storage.mailbox.publish([ORDER])
    otherwise = await storage.mailbox.publish([replace(ORDER, key="other", headers={"a": "b"}, group="elsewhere")])

    assert (again.stored, dict(again.conflicts)) == (frozenset(), {})
    assert (otherwise.stored, dict(otherwise.conflicts)) == (frozenset(), {})


async def test_a_known_id_with_another_payload_is_a_conflict_and_stores_nothing(storage: Storage) -> None:
    await storage.mailbox.publish([ORDER])

    published = await storage.mailbox.publish([replace(ORDER, payload=b'{"order":43}')])

    assert (published.stored, dict(published.conflicts)) == (frozenset(), {0: TOPIC})
    assert [each.payload for each in await claim(storage)] == [b'{"order":42}']


async def test_a_known_id_with_another_topic_is_a_conflict_and_stores_nothing(storage: Storage) -> None:
    await declare(storage, "mailer", TOPIC, "refunds.#")
    await storage.mailbox.publish([replace(ORDER, group=None)])

    published = await storage.mailbox.publish([replace(ORDER, topic="refunds.paid", group=None)])

    assert (published.stored, dict(published.conflicts)) == (frozenset(), {0: TOPIC})
    assert [each.topic for each in await claim(storage)] == [TOPIC]


async def test_what_has_been_handled_still_conflicts(storage: Storage) -> None:
    await storage.mailbox.publish([ORDER])
    await settle(storage, await claim_one(storage), DONE)

    assert dict((await storage.mailbox.publish([replace(ORDER, payload=b"{}")])).conflicts) == {0: TOPIC}


async def test_each_of_a_batch_is_told_by_its_place(storage: Storage) -> None:
    new, twice = draft(group="mailer"), draft(group="mailer", payload=b"1")
    await storage.mailbox.publish([ORDER])

    published = await storage.mailbox.publish(
        [
            new,
            replace(ORDER, payload=b"0"),
            ORDER,
            twice,
            replace(twice, payload=b"2"),
            twice,
            replace(ORDER, topic="b"),
        ]
    )

    assert published.stored == {new.id, twice.id}
    assert dict(published.conflicts) == {1: TOPIC, 4: TOPIC, 6: TOPIC}
    assert sorted(each.payload for each in await claim(storage)) == sorted([ORDER.payload, new.payload, b"1"])


async def test_payloads_of_every_size_are_compared_to_the_last_byte(storage: Storage) -> None:
    sizes = [b"", b"\x00", b"x" * 100_000]
    drafts = [draft(group="mailer", payload=each) for each in sizes]
    await storage.mailbox.publish(drafts)

    same = await storage.mailbox.publish(drafts)
    longer = await storage.mailbox.publish([replace(each, payload=each.payload + b"\x00") for each in drafts])

    assert (dict(same.conflicts), dict(longer.conflicts)) == ({}, dict.fromkeys(range(3), TOPIC))


async def test_a_member_whose_id_is_known_as_another_message_is_told_and_no_member(storage: Storage) -> None:
    await storage.mailbox.publish([ORDER])
    fresh, then = draft(group="mailer"), Draft(uuid4(), "all.done", b"null", group="after")

    published = await storage.mailbox.join(Join(then.id, then=then), [fresh, replace(ORDER, payload=b"{}")])

    assert (published.stored, dict(published.conflicts)) == (frozenset((fresh.id,)), {1: TOPIC})
    (join,) = await storage.ledger.joins(None, 10)
    assert (join.members, join.ended) == (1, 0)


async def test_what_follows_a_join_is_told_where_its_id_is_known_as_another_message(storage: Storage) -> None:
    then = Draft(uuid4(), "all.done", b"null", group="after")
    joins = [Join(uuid4(), then=then), Join(uuid4(), then=then)]
    for join in joins:
        await storage.mailbox.join(join, [draft(group="mailer")])
    await storage.mailbox.publish([replace(ORDER, id=follower_id(joins[0].id), group="elsewhere")])
    for delivery in await claim(storage):
        await storage.mailbox.settle([Settlement(delivery.claim, DONE, member=True)], WORKER)

    found = await look(storage, leaving)

    assert found.joined == 2
    (conflict,) = found.conflicts
    assert (conflict.draft.id, conflict.draft.topic, conflict.topic) == (follower_id(joins[0].id), "all.done", TOPIC)
    assert [each.message_id for each in await claim(storage, "after")] == [follower_id(joins[1].id)]


async def test_an_occurrence_is_told_where_its_id_is_known_as_another_message(storage: Storage) -> None:
    await keep(storage, schedule(), schedule("other"))
    taken = occurrence(NOON).draft
    await storage.mailbox.publish([replace(taken, topic="refunds.paid", group="elsewhere", schedule=None)])

    found = await look(storage)

    assert (found.moved, found.fired, found.conflicts) == (2, 1, (Conflict(taken, "refunds.paid"),))
    assert (await look(storage)).conflicts == ()


async def test_what_is_to_be_there_once_conflicts_too(storage: Storage) -> None:
    likeness = UniqueKey(b"x" * 32, "pending")
    await storage.mailbox.publish([ORDER])

    same = await storage.mailbox.publish_unique(ORDER, likeness)
    other = await storage.mailbox.publish_unique(replace(ORDER, payload=b"{}"), likeness)
    fresh = await storage.mailbox.publish_unique(draft(group="mailer"), likeness)

    assert (same.status, other.status, fresh.status) == ("stored", "conflict", "stored")
