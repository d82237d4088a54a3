"""Searching: what the payload says, when it was published, who has it; and pages that never look at too much."""

from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from mainspring.model.search import Filter, Matches
from mainspring.model.verdict import DONE, Bury, Cancel, Release, Retry, Snooze, Verdict
from mainspring.model.views import Kind, State
from mainspring.storage.codec.formats import PREVIEW
from mainspring.storage.contract import Storage
from tests.contract.acting import (
    HOUR,
    MINUTE,
    NOON,
    SECOND,
    bury_one,
    claim,
    claim_one,
    draft,
    failure,
    hold_one,
    publish,
    settle,
    turn,
)
from tests.contract.acting import found as the_message

ENDS: dict[State, Verdict] = {"dead": Bury(failure()), "done": DONE, "cancelled": Cancel()}
EVERY: tuple[State, ...] = ("ready", "dead", "parked", "done", "cancelled")


async def pages(storage: Storage, wanted: Filter) -> list[Matches]:
    """Every page, from the first to the last."""
    found = [await storage.ledger.browse(wanted)]
    while (before := found[-1].before) is not None:
        assert len(found) < 1000, "the pages have no end"
        found.append(await storage.ledger.browse(replace(wanted, before=before)))
        assert found[-1].before is None or found[-1].before < before
    return found


async def matching(storage: Storage, wanted: Filter) -> list[UUID]:
    return [view.message_id for page in await pages(storage, wanted) for view in page.rows]


async def put(storage: Storage, state: State, payload: bytes, topic: str = "orders.placed", **options: Any) -> UUID:
    """One message in this state."""
    if state == "parked":
        one = draft(topic, payload=payload, **options)
        await publish(storage, one)
        return one.id
    one = draft(topic, group="mailer", payload=payload, **options)
    if state == "ready":
        await publish(storage, one)
        return one.id
    held = await hold_one(storage, one=one)
    await settle(storage, held, ENDS[state], keep="all")
    return one.id


@pytest.mark.parametrize("state", EVERY)
async def test_a_text_is_found_in_payloads_of_every_state(storage: Storage, state: State) -> None:
    other = await put(storage, state, b'{"name": "bob", "size": 7}')
    wanted = await put(storage, state, '{"name": "ÄNNE", "Path": "C:\\\\tmp"}'.encode())

    async def having(text: str) -> list[UUID]:
        return await matching(storage, Filter(state, text=text))

    assert await having("name") == [wanted, other]
    assert await having("ÄnNe") == [wanted]
    assert await having('"PATH"') == [wanted]
    assert await having("c:\\\\TMP") == [wanted]
    assert await having("änne") == [], "only the letters of ASCII have two cases"
    assert await having("%") == []
    assert await having("_") == []
    assert await having("") == [wanted, other]


async def test_bytes_that_are_no_text_are_searched_as_they_are(storage: Storage) -> None:
    odd = await put(storage, "ready", b"\x00\xffOdd\\000 \xc3\x28")
    digits = await put(storage, "ready", b"\xc3\x84 \x00")
    plain = await put(storage, "ready", b"303 000 plain")
    empty = await put(storage, "ready", b"")

    async def having(text: str) -> list[UUID]:
        return await matching(storage, Filter("ready", text=text))

    assert await having("oDD") == [odd]
    assert await having("\\000") == [odd]
    assert await having("\x00") == [digits, odd]
    assert await having("Ä") == [digits]
    assert await having("303") == [plain], "no byte is taken for the digits that some would write it with"
    assert await having("000") == [plain, odd]
    assert await having("") == [empty, plain, digits, odd]
    assert await having("\ud800") == []


@pytest.mark.parametrize("state", EVERY)
async def test_messages_are_found_by_when_they_were_published(storage: Storage, state: State) -> None:
    early = await put(storage, state, b"1")
    turn(storage, MINUTE)
    middle = await put(storage, state, b"2")
    turn(storage, 2 * MINUTE)
    late = await put(storage, state, b"3")

    since = await matching(storage, Filter(state, since=NOON + MINUTE))
    until = await matching(storage, Filter(state, until=NOON + MINUTE))
    between = await matching(storage, Filter(state, since=NOON + MINUTE, until=NOON + 2 * MINUTE))
    never = await matching(storage, Filter(state, since=NOON + HOUR))

    assert (since, until, between, never) == ([late, middle], [early], [middle], [])


async def test_deliveries_are_found_by_who_has_them(storage: Storage) -> None:
    await publish(storage, *(draft(group="mailer") for _ in range(3)))
    (first,) = await claim(storage, limit=1, owner="node-1")
    (second,) = await claim(storage, limit=1, owner="node-2")

    for state in ("live", "running"):
        assert await matching(storage, Filter(state, held_by="node-1")) == [first.message_id]
        assert await matching(storage, Filter(state, held_by="node-2", group="mailer")) == [second.message_id]
        assert await matching(storage, Filter(state, held_by="node-2", group="other")) == []
        assert await matching(storage, Filter(state, held_by="node-3")) == []
    for state in EVERY:
        assert await storage.ledger.browse(Filter(state, held_by="node-1")) == Matches()


@pytest.mark.parametrize("state", EVERY)
async def test_a_topic_is_found_by_its_whole_name(storage: Storage, state: State) -> None:
    plain = await put(storage, state, b"", "orders")
    placed = await put(storage, state, b"", "orders.placed")

    assert await matching(storage, Filter(state)) == [placed, plain]
    assert await matching(storage, Filter(state, topic="orders")) == [plain]
    assert await matching(storage, Filter(state, topic="orders.placed")) == [placed]
    assert await matching(storage, Filter(state, topic="order")) == []


@pytest.mark.parametrize("state", EVERY)
@pytest.mark.parametrize(
    ("narrowed", "count"),
    [
        ({}, 9),
        ({"topic": "orders.placed"}, 6),
        ({"key": "k"}, 6),
        ({"text": "even"}, 5),
        ({"since": NOON}, 9),
        ({"until": NOON + HOUR}, 9),
    ],
)
async def test_however_little_a_page_may_look_at_the_pages_together_have_everything_once(
    storage: Storage, state: State, narrowed: dict[str, Any], count: int
) -> None:
    for number in range(9):
        topic, key = ("orders.placed", "k") if number % 3 else ("orders.paid", None)
        payload = b"even" if number % 2 == 0 else b"odd"
        if state == "parked":
            await publish(storage, draft(topic, key=key, payload=payload))
        elif state == "ready":
            await publish(storage, draft(topic, key=key, payload=payload, group="mailer"))
        else:
            held = await hold_one(storage, one=draft(topic, key=key, payload=payload, group="mailer"))
            await settle(storage, held, ENDS[state], keep="all")
    wanted = Filter(state, **narrowed)

    whole = await matching(storage, wanted)
    assert len(whole) == count

    for scan in (1, 2, 5, 9, 10):
        for limit in (1, 3, 50):
            found = await pages(storage, replace(wanted, scan=scan, limit=limit))
            assert [view.message_id for page in found for view in page.rows] == whole, (scan, limit)
            assert all(page.scanned <= scan and len(page.rows) <= limit for page in found), (scan, limit)


async def test_pages_of_one_group_have_all_of_it_once(storage: Storage) -> None:
    for number in range(8):
        group = "mailer" if number % 2 else "other"
        held = await hold_one(storage, group, draft(group=group))
        await settle(storage, held, Bury(failure()) if number < 4 else DONE, keep="all")
        await publish(storage, draft(group=group, delay=number % 3 * HOUR))

    for state in ("live", "ready", "scheduled", "dead", "done"):
        whole = await matching(storage, Filter(state, group="mailer"))
        for scan in (1, 3, 100):
            found = await pages(storage, Filter(state, group="mailer", scan=scan, limit=2))
            assert [view.message_id for page in found for view in page.rows] == whole, (state, scan)
            assert {view.group for page in found for view in page.rows} <= {"mailer"}
        assert len(whole) == {"live": 4, "ready": 1, "scheduled": 3, "dead": 2, "done": 2}[state]


async def test_a_page_says_where_the_next_one_begins_only_if_there_is_one(storage: Storage) -> None:
    await publish(storage, *(draft(group="mailer") for _ in range(4)))

    exact = await storage.ledger.browse(Filter(limit=4))
    short = await storage.ledger.browse(Filter(limit=3))
    narrowed = await storage.ledger.browse(Filter(group="mailer", limit=3))

    assert (len(exact.rows), exact.before) == (4, None)
    assert (len(short.rows), short.before) == (3, short.rows[-1].seq)
    assert (len(narrowed.rows), narrowed.before) == (3, narrowed.rows[-1].seq)
    assert await storage.ledger.browse(Filter("dead")) == Matches()


async def test_what_comes_between_two_pages_is_on_neither(storage: Storage) -> None:
    await publish(storage, *(draft(group="mailer") for _ in range(4)))
    first = await storage.ledger.browse(Filter(limit=2))
    await publish(storage, draft(group="mailer"))
    gone = await claim_one(storage)
    await settle(storage, gone, DONE)

    second = await storage.ledger.browse(Filter(limit=2, before=first.before))

    seqs = [view.seq for view in (*first.rows, *second.rows)]
    assert seqs == sorted(set(seqs), reverse=True)
    assert (len(second.rows), second.before) == (1, None)


async def test_what_cannot_be_is_not_looked_for(storage: Storage) -> None:
    await bury_one(storage)
    await publish(storage, draft(group="mailer"), draft())

    for impossible in (
        Filter("live", error="boom"),
        Filter("ready", fingerprint="0"),
        Filter("parked", group="mailer"),
        Filter("parked", error="boom"),
        Filter("dead", held_by="node-1"),
    ):
        assert await storage.ledger.browse(impossible) == Matches()


async def test_however_many_groups_there_are_none_is_left_out(storage: Storage) -> None:
    many = [draft("orders.placed", group=f"group-{number:04}") for number in range(1_100)]
    await publish(storage, *many)

    found = await matching(storage, Filter("ready", limit=200))

    assert len(found) == 1_100
    assert set(found) == {one.id for one in many}


@pytest.mark.psycopg
async def test_what_has_failed_and_waits_for_its_next_attempt_is_retrying(storage: Storage) -> None:
    fresh, later = draft(group="mailer"), draft(group="mailer", delay=HOUR)
    await publish(storage, fresh, later)
    at_once, after = [await hold_one(storage, "other", draft("orders", group="other")) for _ in range(2)]
    await settle(storage, at_once, Retry(timedelta(0), failure()))
    await settle(storage, after, Retry(HOUR, failure()))
    snoozed, released, running, buried = [
        await hold_one(storage, "third", draft(group="third", payload=b"x")) for _ in range(4)
    ]
    await settle(storage, snoozed, Snooze(HOUR))
    await settle(storage, released, Release())
    await settle(storage, buried, Bury(failure()))
    wanted = Filter("retrying")

    (late, due) = (await storage.ledger.browse(wanted)).rows

    assert [late.message_id, due.message_id] == [after.message_id, at_once.message_id]
    assert [(each.state, each.attempt) for each in (late, due)] == [("scheduled", 1), ("ready", 1)]
    assert running.message_id not in await matching(storage, wanted)
    assert await matching(storage, replace(wanted, group="mailer")) == []
    assert len(await matching(storage, replace(wanted, group="other"))) == 2
    assert len(await matching(storage, replace(wanted, topic="orders"))) == 2
    assert await matching(storage, replace(wanted, topic="orders.placed")) == []
    assert await matching(storage, replace(wanted, text="x")) == []
    for impossible in ({"held_by": "node-1"}, {"error": "boom"}, {"fingerprint": "0"}):
        assert await storage.ledger.browse(replace(wanted, **impossible)) == Matches()  # type: ignore[arg-type]


async def test_what_retries_is_found_behind_however_much_is_ready(storage: Storage) -> None:
    failing = [await hold_one(storage, "mailer", draft(group="mailer", key="k")) for _ in range(3)]
    for each in failing:
        await settle(storage, each, Retry(timedelta(0), failure()))
    await publish(storage, *(draft(group="mailer") for _ in range(20)))

    for scan in (1, 4, 22, 23, 100):
        found = await pages(storage, Filter("retrying", scan=scan, limit=2))
        ids = [view.message_id for page in found for view in page.rows]
        assert ids == [each.message_id for each in reversed(failing)], scan
        assert all(page.scanned <= scan for page in found), scan
    assert len(await matching(storage, Filter("retrying", key="k"))) == 3


@pytest.mark.parametrize("state", EVERY)
async def test_a_page_searches_no_more_bytes_of_payloads_than_it_may(storage: Storage, state: State) -> None:
    ids = [await put(storage, state, b"%04d" % number * 250) for number in range(6)]

    async def found(weight: int, text: str = "0", scan: int = 20_000) -> list[list[UUID]]:
        wanted = Filter(state, text=text, weight=weight, scan=scan)
        return [[view.message_id for view in page.rows] for page in await pages(storage, wanted)]

    newest = ids[::-1]
    assert await found(6_000) == [newest]
    assert await found(2_999) == [newest[:2], newest[2:4], newest[4:]]
    assert await found(1) == [[each] for each in newest], "one is searched, however large it is"
    assert [each for page in await found(2_500, "0004") for each in page] == [ids[4]]
    assert [each for page in await found(2_500, scan=3) for each in page] == newest
    whole = await storage.ledger.browse(Filter(state, weight=1))
    assert (len(whole.rows), whole.before) == (6, None), "where no text is looked for none is read"


@pytest.mark.parametrize("state", EVERY)
async def test_the_messages_of_one_operation_are_found_by_its_correlation_id(storage: Storage, state: State) -> None:
    await put(storage, state, b"1")
    await put(storage, state, b"2", correlation_id="basket:71")
    first = await put(storage, state, b"3", correlation_id="basket:7")
    second = await put(storage, state, b"4", "orders.paid", correlation_id="basket:7")

    assert await matching(storage, Filter(state, correlation_id="basket:7")) == [second, first]
    assert await matching(storage, Filter(state, correlation_id="basket:7", topic="orders.paid")) == [second]
    assert await matching(storage, Filter(state, correlation_id="basket:7", text="3")) == [first]
    assert await matching(storage, Filter(state, correlation_id="Basket:7")) == []
    assert await matching(storage, Filter(state, correlation_id="basket:7", limit=1)) == [second, first]
    assert await matching(storage, Filter(state, correlation_id="basket:7", scan=1)) == [second, first]


@pytest.mark.parametrize("state", EVERY)
async def test_the_first_message_of_a_chain_belongs_to_it_by_its_id(storage: Storage, state: State) -> None:
    root, other = uuid4(), uuid4()
    await put(storage, state, b"1", id=root)
    await put(storage, state, b"2", id=other, correlation_id="another operation")
    caused = await put(storage, state, b"3", correlation_id=str(root), causation_id=root)

    assert await matching(storage, Filter(state, correlation_id=str(root))) == [caused, root]
    assert await matching(storage, Filter(state, correlation_id=str(root), scan=1)) == [caused, root]
    assert await matching(storage, Filter(state, correlation_id=str(other))) == []


@pytest.mark.parametrize("state", EVERY)
async def test_messages_are_found_by_their_kind(storage: Storage, state: State) -> None:
    at_once = await put(storage, state, b"1")
    recurring = await put(storage, state, b"2", schedule="nightly")
    due = NOON + SECOND
    delayed = draft("orders.placed", group=None if state == "parked" else "mailer", payload=b"3", at=due)
    await publish(storage, delayed)
    turn(storage, MINUTE)
    if state in ENDS:
        await settle(storage, await claim_one(storage), ENDS[state], keep="all")
    by_kind: dict[Kind, UUID] = {"immediate": at_once, "recurring": recurring, "delayed": delayed.id}

    found = {kind: await storage.ledger.browse(Filter(state, kind=kind)) for kind in by_kind}

    assert {kind: [each.message_id for each in page.rows] for kind, page in found.items()} == {
        kind: [message_id] for kind, message_id in by_kind.items()
    }
    assert {kind: [each.kind for each in page.rows] for kind, page in found.items()} == {
        kind: [kind] for kind in by_kind
    }
    assert [each.schedule for each in found["recurring"].rows] == ["nightly"]
    copies = {each.kind for each in (await the_message(storage, delayed.id)).deliveries}
    assert copies <= {"delayed"}


@pytest.mark.parametrize("state", EVERY)
async def test_a_list_shows_the_beginning_of_payloads_where_it_is_asked_to(storage: Storage, state: State) -> None:
    await put(storage, state, b'{"password": "tooth fairy", "name": "Ann"}')
    await put(storage, state, ("é" * 1_200).encode())
    await put(storage, state, b"\xff\x00" * 600)
    await put(storage, state, b"\x81\xa4name\xa3bob", content_type="application/msgpack")

    shown = [each.preview for each in (await storage.ledger.browse(Filter(state, previews=True))).rows]
    plain = [each.preview for each in (await storage.ledger.browse(Filter(state))).rows]

    assert shown == ['{"name":"bob"}', "(1,200 bytes)", "é" * (PREVIEW - 1) + "…", '{"password":"…","name":"Ann"}']
    assert plain == [None] * 4
