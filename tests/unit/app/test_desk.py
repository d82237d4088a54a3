from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from mainspring import Mainspring, Retention
from mainspring.app.admin.bulk import BATCH
from mainspring.model.errors import BadOption
from mainspring.model.message import ALL_LEVELS, ClaimRequest, Draft, Priority, ReleasedClaims
from mainspring.model.search import By
from mainspring.model.verdict import Bury, Failure, Settlement
from mainspring.storage.contract import Storage

HOLD = timedelta(seconds=30)


async def storage_of(app: Mainspring) -> Storage:
    return await app._connection.storage("the test")


async def bury(app: Mainspring, group: str, count: int = 1, error: str = "broken", topic: str = "a") -> list[UUID]:
    """Put dead letters of a stored group into the database."""
    storage = await storage_of(app)
    drafts = [Draft(uuid4(), topic, b'{"n":1}', group=group, headers={"tenant": "a"}, key="k") for _ in range(count)]
    await storage.mailbox.publish(drafts)
    held = await storage.mailbox.claim([ClaimRequest(group, count, ALL_LEVELS)], "worker", HOLD)
    await storage.mailbox.settle([Settlement(each.claim, Bury(Failure("error", error))) for each in held], "worker")
    return [draft.id for draft in drafts]


@pytest.fixture
async def app() -> AsyncIterator[Mainspring]:
    app = Mainspring("memory://", name="shop")

    @app.consumer("a")
    def receipts(order: Any) -> None: ...

    @app.consumer("a", group="analytics")
    def count(order: Any) -> None: ...

    async with app:
        await app.declare()
        yield app


async def test_messages_are_listed_newest_first(app: Mainspring) -> None:
    ids = [(await app.publish("a", number, delay="1h")).id for number in range(3)]

    found = await app.messages.list("scheduled", group="receipts")

    assert [row.message_id for row in found] == list(reversed(ids))


async def test_messages_are_found_by_topic_and_key(app: Mainspring) -> None:
    await app.publish("a", 1, key="x")
    wanted = await app.publish("a", 2, key="y")

    rows = await app.messages.list(group="receipts", topic="a", key="y")

    assert [row.message_id for row in rows] == [wanted.id]


async def test_a_message_nobody_knows_is_none(app: Mainspring) -> None:
    assert await app.messages.get(uuid4()) is None
    assert await app.dead.get(uuid4()) is None


async def test_cancelling_from_the_desk_cancels_every_copy(app: Mainspring) -> None:
    receipt = await app.publish("a", 1)

    cancelled = await app.messages.cancel(receipt.id, reason="not needed")
    runs = await app.messages.runs("receipts")

    assert cancelled.cancelled == 2
    assert [(run.status, run.error) for run in runs] == [("cancelled", "not needed")]


async def test_dead_letters_are_listed_and_shown(app: Mainspring) -> None:
    [first] = await bury(app, "receipts", error="Connection refused")
    [second] = await bury(app, "receipts", error="bad payload")

    assert [row.message_id for row in await app.dead.list()] == [second, first]
    assert [row.message_id for row in await app.dead.list(error="refused")] == [first]
    assert [row.message_id for row in await app.dead.list(group="analytics")] == []
    shown = await app.dead.get(str(first))
    assert shown is not None
    assert [run.error for run in shown.runs] == ["Connection refused"]


async def test_a_living_message_is_no_dead_letter(app: Mainspring) -> None:
    receipt = await app.publish("a", 1)

    assert await app.dead.get(receipt.id) is None


async def test_one_dead_letter_is_revived(app: Mainspring) -> None:
    first, second = await bury(app, "receipts", 2)

    assert await app.dead.revive(first, by="ann") == 1
    assert [row.message_id for row in await app.dead.list()] == [second]
    assert [(row.by, row.action) for row in await app.audit()] == [("ann", "revive")]


async def test_many_are_revived_in_batches_with_progress(app: Mainspring) -> None:
    await bury(app, "receipts", BATCH + 5)
    await bury(app, "analytics", 2)
    told: list[int] = []

    assert await app.dead.revive(everything=True, progress=told.append) == BATCH + 7
    assert told[-1] == BATCH + 7
    assert len(told) == 3


async def test_reviving_ends_even_when_what_is_revived_dies_again(app: Mainspring) -> None:
    await bury(app, "receipts", BATCH)
    storage = await storage_of(app)
    revive = storage.controls.revive

    async def dies_again(which: Any, by: By, limit: int) -> int:
        revived = await revive(which, by, limit)
        held = await storage.mailbox.claim([ClaimRequest("receipts", BATCH, ALL_LEVELS)], "worker", HOLD)
        await storage.mailbox.settle(
            [Settlement(each.claim, Bury(Failure("error", "again"))) for each in held], "worker"
        )
        return revived

    storage.controls.revive = dies_again  # type: ignore[method-assign]

    assert await app.dead.revive(group="receipts") == BATCH


async def test_dead_letters_are_discarded_by_what_they_share(app: Mainspring) -> None:
    await bury(app, "receipts", 2, error="bad payload")
    await bury(app, "receipts", 1, error="refused")
    await bury(app, "analytics", 1, error="bad payload", topic="b")

    assert await app.dead.discard(error="bad", group="receipts") == 2
    assert await app.dead.discard(topic="b") == 1
    assert [row.error for row in await app.dead.list()] == ["refused"]


@pytest.mark.parametrize("call", ["revive", "discard"])
async def test_everything_must_be_said(app: Mainspring, call: str) -> None:
    with pytest.raises(BadOption) as refused:
        await getattr(app.dead, call)()

    assert str(refused.value) == (
        f"dead.{call}() names nothing: give message_id, group, topic, error or fingerprint, or everything=True"
    )


async def test_a_dead_letter_is_revived_with_another_payload(app: Mainspring) -> None:
    [dead] = await bury(app, "receipts")

    revived = await app.dead.revive(dead, payload={"n": 2}, by="ann")

    [row] = await app.messages.list("ready", group="receipts")
    edited = await app.messages.get(row.message_id)
    assert (revived, revived.message_id) == (1, row.message_id)
    assert edited is not None
    assert (edited.payload, edited.key, edited.headers) == (b'{"n":2}', "k", {"tenant": "a"})
    assert (edited.causation_id, edited.correlation_id) == (dead, str(dead))
    assert await app.dead.list() == []


async def test_a_dead_letter_and_what_replaced_it_name_each_other(app: Mainspring) -> None:
    [dead] = await bury(app, "receipts")
    await app.publish("a", 1, correlation_id=str(dead))
    better = (await app.dead.revive(dead, payload={"n": 2})).message_id
    storage = await storage_of(app)
    held = await storage.mailbox.claim([ClaimRequest("receipts", 9, ALL_LEVELS)], "worker", HOLD)
    await storage.mailbox.settle([Settlement(each.claim, Bury(Failure("error", "x"))) for each in held], "worker")
    assert better is not None
    best = (await app.dead.revive(better, payload={"n": 3})).message_id

    views = [await app.messages.get(each) for each in (dead, better, best or dead)]

    assert [view and (view.replaces, view.replaced_by, view.headers) for view in views] == [
        (None, (better,), {"tenant": "a"}),
        (dead, (best,), {"tenant": "a"}),
        (better, (), {"tenant": "a"}),
    ]


async def test_what_is_revived_as_it_was_is_no_other_message(app: Mainspring) -> None:
    [dead] = await bury(app, "receipts")

    revived = await app.dead.revive(dead)

    view = await app.messages.get(dead)
    assert (revived, revived.message_id) == (1, None)
    assert view is not None
    assert (view.replaces, view.replaced_by) == (None, ())


async def test_a_search_in_any_state_finds_each_match_once_page_by_page(app: Mainspring) -> None:
    buried = await bury(app, "receipts", 3)
    waiting = [(await app.publish("a", {"n": 1}, delay="1h")).id for _ in range(2)]
    parked = (await app.publish("nobody.listens", {"n": 1})).id
    await app.publish("a", {"n": 2})
    expected = [*(each for each in reversed(waiting) for _ in range(2)), *reversed(buried), parked]

    async def pages(call: Any, limit: int) -> list[list[UUID]]:
        found = [await call("any", text='"n":1', limit=limit)]
        while found[-1].cursor is not None:
            found.append(await call("any", text='"n":1', limit=limit, cursor=found[-1].cursor))
        return [[row.message_id for row in page] for page in found]

    for call in (app.messages.search, app.messages.list):
        for limit in (1, 2, 3, 4, 50):
            found = await pages(call, limit)
            assert [each for page in found for each in page] == expected
            assert all(len(page) <= limit for page in found)
    assert [len(page) for page in await pages(app.messages.list, 4)] == [4, 4]


async def test_a_cursor_belongs_to_the_state_that_was_searched(app: Mainspring) -> None:
    await bury(app, "receipts", 2)
    one, any_state = await app.messages.list("dead", limit=1), await app.messages.list("any", limit=1)

    for state, cursor in (("any", one.cursor), ("dead", any_state.cursor)):
        with pytest.raises(BadOption, match=f"the cursor is of a search for another state than state='{state}'"):
            await app.messages.list(state, cursor=cursor)  # type: ignore[arg-type]


async def test_what_replaces_a_dead_letter_is_as_urgent(app: Mainspring) -> None:
    storage = await storage_of(app)
    receipt = await app.publish("a", 1, priority="urgent")
    held = await storage.mailbox.claim([ClaimRequest("receipts", 1, ALL_LEVELS)], "worker", HOLD)
    await storage.mailbox.settle([Settlement(each.claim, Bury(Failure("error", "x"))) for each in held], "worker")

    await app.dead.revive(receipt.id, payload=2)

    [row] = await app.messages.list("ready", group="receipts")
    assert row.priority == Priority.URGENT


async def test_a_dead_letter_without_a_topic_of_its_own_gets_another_payload_too(app: Mainspring) -> None:
    [dead] = await bury(app, "receipts", topic="a group with spaces")

    assert await app.dead.revive(dead, payload="text") == 1

    [row] = await app.messages.list("ready", group="receipts")
    assert row.topic == "a group with spaces"


async def test_another_payload_is_for_one_dead_letter_of_one_group(app: Mainspring) -> None:
    storage = await storage_of(app)
    receipt = await app.publish("a", 1)
    wants = [ClaimRequest(group, 1, ALL_LEVELS) for group in ("receipts", "analytics")]
    held = await storage.mailbox.claim(wants, "worker", HOLD)
    await storage.mailbox.settle([Settlement(each.claim, Bury(Failure("error", "x"))) for each in held], "worker")

    with pytest.raises(BadOption, match=r"replaces the payload of one dead letter: give its message_id$"):
        await app.dead.revive(group="receipts", payload=2)
    with pytest.raises(BadOption) as refused:
        await app.dead.revive(receipt.id, payload=2)
    assert str(refused.value) in (
        f"message {receipt.id} is dead for several groups, receipts, analytics: give group=…",
        f"message {receipt.id} is dead for several groups, analytics, receipts: give group=…",
    )
    assert await app.dead.revive(receipt.id, group="analytics", payload=2) == 1
    assert await app.dead.revive(receipt.id, group="analytics", payload=2) == 0
    assert await app.dead.revive(uuid4(), payload=2) == 0


async def lapsed(app: Mainspring, count: int) -> None:
    """Have so many claims of a group lapse."""
    storage = await storage_of(app)
    await storage.mailbox.publish([Draft(uuid4(), "a", b"1", group="receipts") for _ in range(count)])
    await storage.mailbox.claim([ClaimRequest("receipts", count, ALL_LEVELS)], "worker", timedelta())


async def test_all_lapsed_claims_of_a_group_are_released_in_batches(app: Mainspring) -> None:
    await lapsed(app, BATCH + 1)
    told: list[int] = []

    released = await app.groups.release("receipts", by="ann", progress=told.append)

    assert (released, told) == (ReleasedClaims(BATCH + 1), [BATCH, BATCH + 1])
    assert [(line.by, line.action, line.detail) for line in await app.audit()] == [
        ("ann", "release", "1 released"),
        ("ann", "release", f"{BATCH} released"),
    ]
    [waiting] = [each for each in (await app.stats.tally()).groups if each.group == "receipts"]
    assert (waiting.ready, waiting.lapsed) == (BATCH + 1, 0)


async def test_no_more_lapsed_claims_are_released_than_the_limit_says(app: Mainspring) -> None:
    await lapsed(app, BATCH + 10)

    first = await app.groups.release("receipts", limit=BATCH + 3)
    rest = await app.groups.release("receipts", limit=100)

    assert (first.released, rest.released) == (BATCH + 3, 7)


async def test_those_that_are_left_do_not_count_for_the_limit(app: Mainspring) -> None:
    storage = await storage_of(app)
    await lapsed(app, 3)
    for _ in range(2):
        await storage.mailbox.reap(["receipts"], "worker", timedelta())
    await lapsed(app, 2)

    released = await app.groups.release("receipts", limit=1)
    rest = await app.groups.release("receipts", limit=10)

    assert (released.released, rest) == (1, ReleasedClaims(2, left=2))


@pytest.mark.parametrize("limit", [0, -1, True, "3"])
async def test_a_limit_that_is_no_number_of_claims_is_refused(app: Mainspring, limit: Any) -> None:
    with pytest.raises(BadOption, match="limit="):
        await app.groups.release("receipts", limit=limit)


async def test_an_unknown_group_has_no_claims_to_release(app: Mainspring) -> None:
    with pytest.raises(BadOption, match=r"there is no group 'receits'\. Did you mean 'receipts'\?"):
        await app.groups.release("receits")


async def test_groups_are_listed_paused_and_resumed(app: Mainspring) -> None:
    await app.groups.pause("receipts", by="ann", reason="mail is down")
    paused = {group.name: group for group in await app.groups.list()}["receipts"]
    await app.groups.resume("receipts", by="ann")
    resumed = {group.name: group for group in await app.groups.list()}["receipts"]

    assert (paused.paused_by, paused.pause_reason, paused.app) == ("ann", "mail is down", "shop")
    assert resumed.paused_at is None


async def test_a_group_is_retired_with_its_backlog(app: Mainspring) -> None:
    await app.publish_many([("a", number) for number in range(BATCH + 1)])
    told: list[int] = []

    assert await app.groups.retire("receipts", progress=told.append) == BATCH + 1
    assert told == [BATCH, BATCH + 1]
    assert [group.name for group in await app.groups.list()] == ["analytics"]


async def test_an_empty_group_is_retired_too(app: Mainspring) -> None:
    assert await app.groups.retire("receipts") == 0
    assert [group.name for group in await app.groups.list()] == ["analytics"]


@pytest.mark.parametrize("call", ["pause", "resume", "retire"])
async def test_a_group_that_is_not_there_is_named(app: Mainspring, call: str) -> None:
    with pytest.raises(BadOption) as refused:
        await getattr(app.groups, call)("receits")

    assert str(refused.value) == (
        "there is no group 'receits'. Did you mean 'receipts'? There are: analytics, receipts"
    )


async def test_pruning_goes_on_until_nothing_is_left(app: Mainspring) -> None:
    storage = await storage_of(app)
    for number in range(3):
        await app.cancel(await app.publish("a", number))
    told: list[int] = []
    now = (await app.stats.tally()).now

    storage.now = now + timedelta(days=400)
    pruned = await app.prune(progress=told.append)

    assert pruned.runs == 6
    assert told[-1] == pruned.total
    assert (await app.prune()).total == 0


async def test_what_was_pruned_is_in_the_audit_with_its_counts(app: Mainspring) -> None:
    await bury(app, "receipts", 2)
    at_once = Retention(dead=timedelta(), failures=None)
    (await storage_of(app)).now = (await app.stats.tally()).now + timedelta(minutes=1)

    await app.prune(Retention(failures=None), by="ann")
    await app.prune(at_once, topic="b.*", by="ann")
    nothing = await app.audit()
    await app.prune(at_once, topic="a", by="ann")

    assert nothing == []
    (line,) = await app.audit()
    assert (line.by, line.action, line.subject, line.detail) == ("ann", "prune", "a", "dead 2")


async def test_a_pruning_that_ends_early_is_in_the_audit_too(app: Mainspring) -> None:
    await bury(app, "receipts", 2)
    (await storage_of(app)).now = (await app.stats.tally()).now + timedelta(minutes=1)

    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await app.prune(Retention(dead=timedelta(), failures=None), progress=interrupt)

    (line,) = await app.audit()
    assert (line.by, line.action, line.subject, line.detail) == ("app", "prune", "all topics", "dead 2")


async def test_what_may_not_be_meant_is_refused_before_anything_goes(app: Mainspring) -> None:
    await bury(app, "receipts")
    (await storage_of(app)).now = (await app.stats.tally()).now + timedelta(minutes=1)

    with pytest.raises(BadOption):
        await app.prune(Retention(dead=timedelta(), topics={"a": {"dead": -timedelta(days=1)}}))
    with pytest.raises(BadOption):
        await app.prune(Retention(dead=timedelta()), topic="a*")

    assert len(await app.dead.list()) == 1
