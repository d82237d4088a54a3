"""``app.inbox`` on memory: what is asked, answered, said and told."""

import asyncio
import logging
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from mainspring import Admission, Mainspring, events
from mainspring.model.errors import BadHandle, BadOption, Misuse, NotOpen
from mainspring.storage.contract import Storage

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
ID = UUID(int=7)


async def storage_of(app: Mainspring) -> Storage:
    return await app._connection.storage("the test")


async def turn(app: Mainspring, after: timedelta) -> None:
    (await storage_of(app)).now = NOON + after


@pytest.fixture
async def app() -> AsyncIterator[Mainspring]:
    app = Mainspring("memory://", name="shop")
    async with app:
        await turn(app, timedelta())
        yield app


async def test_a_message_is_let_in_once_and_done(app: Mainspring) -> None:
    admission = await app.inbox.admit("evt_1", "stripe")
    again = await app.inbox.admit("evt_1", "stripe")

    assert admission == Admission("shop", "stripe", "evt_1", True, "processing", 1, NOON)
    assert (bool(admission), bool(again), again.status) == (True, False, "processing")
    assert await app.inbox.done(admission)
    assert (await app.inbox.admit("evt_1", "stripe")).status == "done"


async def test_an_id_may_be_a_uuid_and_is_the_same_as_its_text(app: Mainspring) -> None:
    assert await app.inbox.admit(ID, "stripe")
    assert not await app.inbox.admit(str(ID), "stripe")


async def test_text_and_bytes_of_a_hash_are_the_same(app: Mainspring) -> None:
    await app.inbox.admit("evt_1", "stripe", "abc")

    assert not (await app.inbox.admit("evt_1", "stripe", b"abc")).mismatch
    assert (await app.inbox.admit("evt_1", "stripe", hash="abd")).mismatch


async def test_what_failed_comes_in_again(app: Mainspring) -> None:
    first = await app.inbox.admit("evt_1", "stripe")
    assert await app.inbox.failed(first, error=ValueError("no money"))
    second = await app.inbox.admit("evt_1", "stripe")

    view = await app.inbox.get("evt_1", "stripe")
    assert view is not None
    assert (second.admitted, second.attempts, view.error) == (True, 2, "ValueError: no money")
    assert not await app.inbox.done(first)
    assert await app.inbox.dead(second, error="hopeless")
    assert not await app.inbox.admit("evt_1", "stripe", retry_after="1s")


async def test_what_became_of_it_may_be_said_by_keys_and_attempt(app: Mainspring) -> None:
    await app.inbox.admit(ID, "stripe", group="crm")

    assert not await app.inbox.done(ID, "stripe", attempt=2, group="crm")
    assert not await app.inbox.done(ID, "stripe", attempt=1)
    assert await app.inbox.failed(ID, "stripe", "boom", attempt=1, group="crm")
    assert (await app.inbox.admit(ID, "stripe", group="crm")).attempts == 2
    assert await app.inbox.dead(ID, "stripe", "boom", attempt=2, group="crm")


async def test_who_died_is_followed_after_a_while(app: Mainspring) -> None:
    frozen = await app.inbox.admit("evt_1", "stripe", retry_after="10m")
    await turn(app, timedelta(minutes=10))
    later = await app.inbox.admit("evt_1", "stripe", retry_after="10m")

    assert (later.admitted, later.attempts) == (True, 2)
    assert not await app.inbox.done(frozen)
    assert await app.inbox.done(later)


# Blocks


async def test_a_block_is_done_at_its_end(app: Mainspring) -> None:
    async with app.inbox.once("evt_1", "stripe") as first, app.inbox.once("evt_1", "stripe") as second:
        assert (bool(first), bool(second)) == (True, False)

    view = await app.inbox.get("evt_1", "stripe")
    assert view is not None
    assert view.status == "done"


async def test_a_block_that_raises_has_failed(app: Mainspring) -> None:
    with pytest.raises(ZeroDivisionError):
        async with app.inbox.once("evt_1", "stripe"):
            _ = 1 / 0

    view = await app.inbox.get("evt_1", "stripe")
    assert view is not None
    assert (view.status, view.error) == ("seen", "ZeroDivisionError: division by zero")
    async with app.inbox.once("evt_1", "stripe") as again:
        assert again.attempts == 2


async def test_a_block_that_is_cancelled_has_failed(app: Mainspring) -> None:
    inside = asyncio.Event()

    async def work() -> None:
        async with app.inbox.once("evt_1", "stripe"):
            inside.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(work())
    await inside.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert await app.inbox.admit("evt_1", "stripe")


async def test_what_was_let_in_for_somebody_who_is_cancelled_before_the_answer_may_come_again(
    app: Mainspring, monkeypatch: pytest.MonkeyPatch
) -> None:
    inbox = (await storage_of(app)).inbox
    admitted, answers, admit = asyncio.Event(), asyncio.Event(), inbox.admit

    async def slow(*asked: Any) -> Admission:
        admission = await admit(*asked)
        admitted.set()
        await answers.wait()
        return admission

    monkeypatch.setattr(inbox, "admit", slow)
    asking = asyncio.create_task(app.inbox.admit("evt_1", "stripe"))
    await admitted.wait()

    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    answers.set()
    await app._connection.close()  # which waits until it is given back

    async with app:
        again = await app.inbox.admit("evt_1", "stripe")
    assert (again.admitted, again.attempts) == (True, 2)


async def test_a_block_that_is_not_let_in_changes_nothing(app: Mainspring) -> None:
    await app.inbox.admit("evt_1", "stripe")

    with pytest.raises(ZeroDivisionError):
        async with app.inbox.once("evt_1", "stripe") as admission:
            _ = 1 / bool(admission)

    view = await app.inbox.get("evt_1", "stripe")
    assert view is not None
    assert view.status == "processing"


@pytest.mark.parametrize("raises", [False, True])
async def test_what_a_block_says_itself_stands(app: Mainspring, caplog: pytest.LogCaptureFixture, raises: bool) -> None:
    async def play() -> None:
        async with app.inbox.once("evt_1", "stripe") as admission:
            await app.inbox.dead(admission, error="not for us")
            if raises:
                raise ValueError

    if raises:
        with pytest.raises(ValueError):
            await play()
    else:
        await play()

    view = await app.inbox.get("evt_1", "stripe")
    assert view is not None
    assert (view.status, view.error) == ("dead", "not for us")
    assert caplog.messages == []


async def test_a_block_that_was_overtaken_says_so(app: Mainspring, caplog: pytest.LogCaptureFixture) -> None:
    async with app.inbox.once("evt_1", "stripe"):
        await turn(app, timedelta(hours=1))
        assert await app.inbox.admit("evt_1", "stripe", retry_after="10m")

    assert caplog.messages == [
        "evt_1 of stripe was admitted again, or released, before attempt 1 ended: it may have been processed twice"
    ]


async def test_a_failure_is_raised_though_it_cannot_be_noted(app: Mainspring, caplog: pytest.LogCaptureFixture) -> None:
    async def play() -> None:
        async with app.inbox.once("evt_1", "stripe"):
            await app._connection.close()
            _ = 1 / 0

    with pytest.raises(ZeroDivisionError):
        await play()

    assert "the failure of evt_1 of stripe was not stored" in caplog.messages[0]


# Mismatches


async def test_a_mismatch_is_told_once(app: Mainspring, caplog: pytest.LogCaptureFixture) -> None:
    told: list[events.Mismatched] = []
    app.on(events.Mismatched, told.append)
    await app.inbox.admit("evt_1", "stripe", "one")

    with caplog.at_level(logging.WARNING, "mainspring.inbox"):
        answers = [await app.inbox.admit("evt_1", "stripe", "two") for _ in range(3)]

    assert [(each.admitted, each.mismatch, each.first_mismatch) for each in answers] == [
        (False, True, True),
        (False, True, False),
        (False, True, False),
    ]
    assert told == [events.Mismatched("shop", "stripe", "evt_1", NOON)]
    assert caplog.messages == [
        "evt_1 of stripe came with another hash than the first time, 2030-01-01T12:00:00+00:00: it is not admitted"
    ]


def test_whoever_blocks_tells_hooks_of_both_kinds() -> None:
    app = Mainspring("sqlite:///:nowhere:", name="shop")
    told: list[object] = []

    @app.on(events.Mismatched)
    async def hear(event: events.Mismatched) -> None:
        await asyncio.sleep(0)
        told.append(event)

    app.on(events.Mismatched, told.append)
    with app.testing():
        app.sync.inbox.admit("evt_1", "stripe", "one", tx=object())
        app.sync.inbox.admit("evt_1", "stripe", "two", tx=object())

    assert [type(each) for each in told] == [events.Mismatched] * 2


# Mistakes


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ({"message_id": 7}, "message_id=7 must be text or a UUID, not int"),
        ({"message_id": ""}, "message_id must be 1 to 200 characters"),
        ({"message_id": "x" * 201}, "message_id must be 1 to 200 characters"),
        ({"message_id": "a\x00"}, "control character"),
        ({"source": None}, "source=None must be text"),
        ({"source": "x" * 201}, "source must be 1 to 200 characters"),
        ({"hash": 7}, "hash=7 must be text or bytes"),
        ({"hash": ""}, "hash must be 1 to 128 bytes, not 0"),
        ({"hash": b"x" * 129}, "hash must be 1 to 128 bytes, not 129"),
        ({"hash": "ß" * 65}, "hash must be 1 to 128 bytes, not 130"),
        ({"group": "a/b"}, "group='a/b' has a '/'"),
        ({"retry_after": "soon"}, "retry_after='soon' is not a duration"),
        ({"retry_after": "0s"}, "retry_after='0s' is out of bounds"),
    ],
)
async def test_what_cannot_be_meant_is_refused_at_the_call(app: Mainspring, call: dict[str, Any], said: str) -> None:
    given = {"message_id": "evt_1", "source": "stripe", **call}

    with pytest.raises(BadOption) as refused:
        await app.inbox.admit(**given)
    with pytest.raises(BadOption):
        async with app.inbox.once(**given):
            raise AssertionError("nobody comes here")

    assert said in str(refused.value)
    assert await app.inbox.list() == []


async def test_only_who_was_let_in_says_what_became_of_it(app: Mainspring) -> None:
    await app.inbox.admit("evt_1", "stripe")
    refused = await app.inbox.admit("evt_1", "stripe")

    with pytest.raises(BadOption, match=r"'evt_1' was not admitted.*write `if admission:`"):
        await app.inbox.done(refused)
    with pytest.raises(BadOption, match="which attempt is it"):
        await app.inbox.done("evt_1", "stripe")
    with pytest.raises(BadOption, match="which attempt is it"):
        await app.inbox.failed("evt_1", attempt=1)
    with pytest.raises(BadOption, match="leave out source="):
        await app.inbox.done(await app.inbox.admit("evt_2", "stripe"), "stripe")
    with pytest.raises(BadOption, match="attempt=0 must be a whole number"):
        await app.inbox.done("evt_1", "stripe", attempt=0)
    with pytest.raises(BadOption, match="error=7 must be text or an exception"):
        await app.inbox.failed("evt_1", "stripe", 7, attempt=1)  # type: ignore[arg-type]


async def test_a_long_error_is_cut(app: Mainspring) -> None:
    await app.inbox.failed(await app.inbox.admit("evt_1", "stripe"), error="x" * 5000)

    view = await app.inbox.get("evt_1", "stripe")
    assert view is not None
    assert len(view.error or "") == 2001


async def test_memory_has_no_transaction_to_join(app: Mainspring) -> None:
    with pytest.raises(BadHandle, match="memory:// has no transactions"):
        await app.inbox.admit("evt_1", "stripe", tx=object())


async def test_the_app_must_be_open_and_blocking_calls_name_their_twin() -> None:
    app = Mainspring("memory://")

    with pytest.raises(NotOpen, match=r"app\.inbox\.admit\(\) needs an open app"):
        await app.inbox.admit("evt_1", "stripe")
    with pytest.raises(Misuse, match=r"write `await app\.inbox\.admit\(…\)`"):
        app.sync.inbox.admit("evt_1", "stripe")


# Listing


async def test_listing_and_releasing(app: Mainspring) -> None:
    stuck = await app.inbox.admit("evt_1", "stripe")
    await turn(app, timedelta(hours=1, seconds=1))
    await app.inbox.done(await app.inbox.admit("evt_2", "paypal"))

    assert [each.message_id for each in await app.inbox.list()] == ["evt_2", "evt_1"]
    assert [each.message_id for each in await app.inbox.list("done")] == ["evt_2"]
    assert [each.message_id for each in await app.inbox.list(stuck=True)] == ["evt_1"]
    assert await app.inbox.list(stuck="2h") == []
    assert [each.message_id for each in await app.inbox.list(source="paypal", limit=1)] == ["evt_2"]
    assert await app.inbox.release("evt_1", "stripe", by="ann")
    assert not await app.inbox.release("evt_2", "paypal")
    assert not await app.inbox.done(stuck)
    assert [(each.by, each.action) for each in await app.audit()] == [("ann", "inbox release")]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ({"status": "finished"}, "status='finished' is not one of 'seen', 'processing', 'done', 'dead'"),
        ({"limit": 0}, "limit=0 must be a whole number"),
        ({"stuck": "long"}, "stuck='long' is not a duration"),
    ],
)
async def test_a_listing_that_cannot_be_meant_is_refused(app: Mainspring, call: dict[str, Any], said: str) -> None:
    with pytest.raises(BadOption) as refused:
        await app.inbox.list(**call)

    assert said in str(refused.value)


async def test_what_is_stuck_is_a_finding_of_health(app: Mainspring) -> None:
    await app.inbox.admit("evt_1", "stripe")
    await turn(app, timedelta(seconds=1))
    await app.inbox.admit("evt_2", "stripe")

    async def check() -> Any:
        return next(each for each in (await app.health()).checks if each.name == "inbox")

    fine = await check()
    await turn(app, timedelta(hours=2))
    found = await check()

    assert (fine.status, fine.summary, fine.data["count"]) == ("healthy", "0 stuck", 0)
    assert found.status == "degraded"
    assert found.summary == "2 stuck for longer than 1h, as evt_1 of stripe: see `mainspring inbox list --stuck`"
    assert found.data["count"] == 2
    assert found.data["example"] == {"message_id": "evt_1", "source": "stripe", "group": "shop", "since": NOON}
