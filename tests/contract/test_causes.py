"""Dead letters by what they died of."""

from itertools import product
from string import ascii_lowercase

import pytest

from mainspring.model.fingerprint import fingerprint
from mainspring.model.search import Causes, DeadSelection, Filter
from mainspring.model.verdict import Bury, Settlement
from mainspring.storage.contract import Storage
from tests.contract.acting import MINUTE, NOON, WORKER, bury_one, claim, draft, failure, listed, publish, turn


async def counted(storage: Storage, group: str | None = None) -> list[tuple[str, str, int]]:
    return [(each.group, each.error, each.count) for each in (await storage.ledger.causes(group, 100, 100)).rows]


async def test_errors_that_differ_only_in_numbers_are_one_cause(storage: Storage) -> None:
    for number in range(3):
        turn(storage, number * MINUTE)
        await bury_one(storage, error=f"order {number} not found")
    turn(storage, 3 * MINUTE)
    await bury_one(storage, error="timeout")

    most, least = (await storage.ledger.causes(None, 100, 100)).rows

    assert (most.group, most.kind, most.error, most.count) == ("mailer", "error", "order 2 not found", 3)
    assert (most.first_at, most.last_at) == (NOON, NOON + 2 * MINUTE)
    assert most.fingerprint == fingerprint("error", "order 99 not found")
    assert (least.error, least.count, least.first_at) == ("timeout", 1, NOON + 3 * MINUTE)


@pytest.mark.psycopg
async def test_each_group_has_causes_of_its_own(storage: Storage) -> None:
    await bury_one(storage, "mailer", "boom")
    await bury_one(storage, "analytics", "boom")
    await bury_one(storage, "analytics", "boom")
    await bury_one(storage, "mailer-2", "boom")
    await bury_one(storage, "mailer-2", "another")

    assert (await counted(storage))[0] == ("analytics", "boom", 2)
    assert len(await counted(storage)) == 4
    assert await counted(storage, "mailer") == [("mailer", "boom", 1)]
    assert sorted(await counted(storage, "mailer-2")) == [("mailer-2", "another", 1), ("mailer-2", "boom", 1)]
    for unknown in ("mail", "mailer-1", "z", "A"):
        assert await counted(storage, unknown) == []


async def test_the_causes_of_others_do_not_hide_those_of_a_group(storage: Storage) -> None:
    await publish(storage, *[draft(group="acme") for _ in range(1_050)])
    held = sorted(await claim(storage, "acme", 1_050), key=lambda each: each.claim)
    words = ["".join(letters) for letters in product(ascii_lowercase, repeat=3)]
    ends = [Settlement(each.claim, Bury(failure(f"{word} is broken"))) for each, word in zip(held, words, strict=False)]
    await storage.mailbox.settle(ends, WORKER)
    await bury_one(storage, "mailer", "boom")

    assert await counted(storage, "mailer") == [("mailer", "boom", 1)]
    assert len(await counted(storage, "acme")) == 100


async def test_a_cause_is_counted_up_to_the_cap_from_the_newest_on(storage: Storage) -> None:
    for number in range(4):
        turn(storage, number * MINUTE)
        await bury_one(storage, error=f"boom {number}")
    await bury_one(storage, error="another")

    capped, other = (await storage.ledger.causes(None, 2, 100)).rows
    first = await storage.ledger.causes(None, 100, 1)
    (only,) = first.rows

    assert (capped.more, other.more, only.more, first.more) == (True, False, False, True)
    assert (capped.count, capped.first_at, capped.last_at) == (2, NOON + 2 * MINUTE, NOON + 3 * MINUTE)
    assert (other.error, other.count) == ("another", 1)
    assert (only.error, only.count) == ("boom 3", 4)


async def test_nothing_dead_has_no_cause(storage: Storage) -> None:
    assert await storage.ledger.causes(None, 100, 100) == Causes()
    assert await storage.ledger.causes("mailer", 100, 100) == Causes()


async def test_however_few_rows_may_be_read_what_is_told_of_causes_is_true(storage: Storage) -> None:
    truth = {"alpha": 7, "beta": 3, "gamma": 3, "delta": 1}
    for word, count in truth.items():
        for _ in range(count):
            await bury_one(storage, error=f"{word} is broken")

    for scan in (1, 2, 3, 4, 5, 8, 12, 14, 20, 28, 100):
        found = await storage.ledger.causes(None, 100, 3, scan)
        counts = {each.error.split()[0]: (each.count, each.more) for each in found.rows}
        assert found.more, "the fourth is left out"
        assert 0 < len(found.rows) <= 3
        assert all(1 <= count <= truth[word] for word, (count, _) in counts.items()), scan
        assert all(more or count == truth[word] for word, (count, more) in counts.items()), scan
        assert [each.count for each in found.rows] == sorted((each.count for each in found.rows), reverse=True)
    assert counts == {"alpha": (7, False), "beta": (3, False), "gamma": (3, False)}


async def test_more_causes_than_there_are_steps_are_said_to_be_left_out(storage: Storage) -> None:
    for word in ("alpha", "beta", "gamma"):
        await bury_one(storage, error=f"{word} is broken")

    whole = await storage.ledger.causes(None, 100, 3)
    exactly = await storage.ledger.causes(None, 100, 2)

    assert (len(whole.rows), whole.more) == (3, False)
    assert (len(exactly.rows), exactly.more) == (2, True)


@pytest.mark.psycopg
async def test_dead_letters_are_listed_revived_and_discarded_by_their_cause(storage: Storage) -> None:
    lost = [await bury_one(storage, error=f"order {number} lost") for number in range(2)]
    slow = await bury_one(storage, error="timeout")
    elsewhere = await bury_one(storage, "analytics", "order 7 lost")
    cause = fingerprint("error", "order 1 lost")

    async def having(**narrowed: str) -> list[object]:
        page = await storage.ledger.browse(Filter("dead", fingerprint=cause, **narrowed))  # type: ignore[arg-type]
        return [view.message_id for view in page.rows]

    everywhere, here = await having(), await having(group="mailer")
    revived = await storage.controls.revive(DeadSelection(group="mailer", fingerprint=cause), "ann", 10)
    discarded = await storage.controls.discard(DeadSelection(fingerprint=cause), "ann", 10)

    assert everywhere == [elsewhere.message_id, lost[1].message_id, lost[0].message_id]
    assert here == [lost[1].message_id, lost[0].message_id]
    assert (revived, discarded) == (2, 1)
    assert await listed(storage, "dead") == [slow.message_id]
    (discarding, reviving) = await storage.ledger.audit(None, 2)
    assert (reviving.subject, discarding.subject) == (f"group mailer, cause {cause}", f"cause {cause}")


async def test_whoever_dies_again_of_something_else_has_another_cause(storage: Storage) -> None:
    await bury_one(storage, error="timeout", one=draft(group="mailer"))
    await storage.controls.revive(DeadSelection(), "ann", 10)
    await bury_one(storage, error="disk full", one=draft(group="analytics"), group="analytics")

    assert await counted(storage) == [("analytics", "disk full", 1)]
