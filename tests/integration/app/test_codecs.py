"""Codecs and versions from end to end, on every database: what one deploy stores, the next one reads."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from mainspring import NO_RETRY, Context, JsonCodec, Mainspring, MsgpackCodec, Receipt, intervals
from mainspring.model.message import Draft
from mainspring.model.views import MessageView
from tests.integration.app import packed
from tests.integration.app.shop import Seen, eventually
from tests.unit.codec.wrapping import Signed

MSGPACK = "application/msgpack"
MakeApp = Callable[..., Mainspring]


@dataclass
class OrderV1:
    id: int
    line: str


@dataclass
class OrderV2:
    id: int
    lines: list[str]


@dataclass
class OrderV3:
    id: int
    lines: list[str]
    currency: str


def several_lines(old: dict[str, Any]) -> dict[str, Any]:
    return {"id": old["id"], "lines": [old["line"]]}


def with_currency(old: dict[str, Any]) -> dict[str, Any]:
    return old | {"currency": "EUR"}


@pytest.fixture(params=["sqlite", "postgres"])
def deploy(request: pytest.FixtureRequest, tmp_path: Path, postgres_url: str, postgres_schema: str) -> MakeApp:
    """Makes one version of the app after the other, all on the same database."""
    if request.param == "sqlite":
        return lambda **options: Mainspring(f"sqlite:///{tmp_path / 'shop.db'}", name="shop", **options)
    return lambda **options: Mainspring(postgres_url, name="shop", schema=postgres_schema, auto_migrate=True, **options)


def versioned(app: Mainspring, kind: type, version: int) -> Mainspring:
    """The app as it was at that version, with every upcaster that leads to it."""
    app.message("orders.placed", version=version)(kind)
    for older, upcaster in enumerate([several_lines, with_currency][: version - 1], start=1):
        app.upcaster(kind, older)(upcaster)
    return app


def receiving(app: Mainspring, kind: type, batch: int | None = None) -> Seen[Any]:
    seen: Seen[Any] = Seen()

    async def receipts(order: Any) -> None:
        seen.add(order)

    receipts.__annotations__["order"] = kind if batch is None else list[kind]  # type: ignore[valid-type]
    options: dict[str, Any] = {} if batch is None else {"batch": batch}
    app.consumer(kind, group="receipts", retry=intervals("1ms", "1ms"), **options)(receipts)
    return seen


async def buried(app: Mainspring, receipt: Receipt) -> MessageView:
    async def is_dead() -> bool:
        return bool(await app.dead.list())

    await eventually(is_dead)
    letter = await app.dead.get(receipt.id)
    assert letter is not None
    return letter


async def test_what_an_older_app_stored_is_handled_by_the_newer_one(deploy: MakeApp) -> None:
    first = versioned(deploy(), OrderV1, 1)
    receiving(first, OrderV1)
    await first.migrate()
    await first.declare()
    async with first:
        await first.publish(OrderV1(1, "a"))
    second = versioned(deploy(), OrderV2, 2)
    async with second:
        stored = await second.publish(OrderV2(2, ["b", "c"]))

    third = versioned(deploy(), OrderV3, 3)
    seen = receiving(third, OrderV3)
    async with third.worker():
        await third.publish(OrderV3(3, [], "USD"))

        assert sorted(await seen.count(3), key=lambda order: order.id) == [
            OrderV3(1, ["a"], "EUR"),
            OrderV3(2, ["b", "c"], "EUR"),
            OrderV3(3, [], "USD"),
        ]
        view = await third.messages.get(stored.id)
    assert view is not None
    assert (view.payload, view.content_type) == (b'{"id":2,"lines":["b","c"]}', "application/json; version=2")


@pytest.mark.parametrize("batch", [None, 2])
async def test_a_newer_version_waits_for_a_newer_worker_and_uses_up_no_attempt(
    deploy: MakeApp, batch: int | None, caplog: pytest.LogCaptureFixture
) -> None:
    old, new = versioned(deploy(), OrderV2, 2), versioned(deploy(), OrderV3, 3)
    missed, seen = receiving(old, OrderV2, batch), receiving(new, OrderV3)
    async with old.worker(), new:
        receipt = await new.publish(OrderV3(1, ["a"], "USD"))

        async def was_met() -> bool:
            health = await old.health()
            return any(each.name == "version receipts" and each.status == "degraded" for each in health.checks)

        await eventually(was_met)

        async def waits() -> bool:
            return [each.attempt for each in await old.messages.list("scheduled")] == [0]

        await eventually(waits)
        async with new.worker():
            assert await seen.count(1) == [OrderV3(1, ["a"], "USD")]
        stored = await new.messages.get(receipt.id)

    assert stored is not None
    assert (missed.items, stored.runs) == ([], ())
    lines = [each.getMessage() for each in caplog.records if "waits for a worker with newer code" in each.getMessage()]
    assert len(lines) == 1
    assert "version 3 of OrderV2 is newer than version 2, the newest known here" in lines[0]


async def test_a_newer_version_that_has_waited_too_long_is_buried_with_its_bytes_and_revived_by_a_newer_worker(
    deploy: MakeApp,
) -> None:
    old, new = versioned(deploy(newer_wait="0s"), OrderV2, 2), versioned(deploy(), OrderV3, 3)
    missed, seen = receiving(old, OrderV2), receiving(new, OrderV3)
    async with old.worker():
        async with new:
            receipt = await new.publish(OrderV3(1, ["a"], "USD"))
        letter = await buried(old, receipt)

    assert missed.items == []
    assert (letter.payload, letter.content_type) == (
        b'{"id":1,"lines":["a"],"currency":"USD"}',
        "application/json; version=3",
    )
    (run,) = letter.runs
    assert (run.attempt, run.status, run.kind) == (1, "dead", "unreadable")
    assert "version 3 of OrderV2 is newer than version 2, the newest known here" in str(run.error)
    assert str(run.error).endswith("none has taken it within 0s, its newer_wait")
    async with new.worker():
        assert await new.dead.revive(receipt.id) == 1
        assert await seen.count(1) == [OrderV3(1, ["a"], "USD")]


async def test_an_older_version_that_cannot_be_upcast_is_buried_with_its_bytes_and_revived_edited(
    deploy: MakeApp,
) -> None:
    first = versioned(deploy(), OrderV1, 1)
    app = versioned(deploy(), OrderV2, 2)
    seen = receiving(app, OrderV2)
    async with app.worker():
        async with first:
            receipt = await first.publish("orders.placed", {"id": 1, "article": "a"}, validate=False)
        letter = await buried(app, receipt)

        assert (letter.payload, letter.content_type) == (b'{"id":1,"article":"a"}', "application/json")
        assert "several_lines failed on a message of OrderV2, version 1: KeyError: 'line' (test_codecs.py:" in str(
            letter.runs[0].error
        )
        assert await app.dead.revive(receipt.id, payload={"id": 1, "line": "a"}) == 1  # still of version 1
        assert await seen.count(1) == [OrderV2(1, ["a"])]


async def test_a_dead_letter_is_replaced_by_the_current_version_when_the_payload_is_of_the_type(
    deploy: MakeApp,
) -> None:
    first = versioned(deploy(), OrderV1, 1)
    app = versioned(deploy(), OrderV2, 2)
    seen = receiving(app, OrderV2)
    async with app.worker():
        async with first:
            receipt = await first.publish("orders.placed", [], validate=False)
        await buried(app, receipt)

        assert await app.dead.revive(receipt.id, payload=OrderV2(1, ["a", "b"])) == 1
        assert await seen.count(1) == [OrderV2(1, ["a", "b"])]


async def test_messagepack_and_json_meet_on_one_topic(deploy: MakeApp) -> None:
    app, before = deploy(codecs=[MsgpackCodec()]), deploy()
    app.message("orders.placed", codec=MSGPACK)(OrderV2)
    before.message("orders.placed")(OrderV2)
    seen, plain = receiving(app, OrderV2), Seen[tuple[str, dict[str, Any]]]()

    @app.consumer("orders.#")
    def analytics(order: dict[str, Any], ctx: Context) -> None:
        plain.add((ctx.content_type, order))

    async with app.worker(), before:
        await before.publish(OrderV2(1, ["a"]))
        stored = await app.publish(OrderV2(2, ["b"]))

        assert sorted(await seen.count(2), key=lambda order: order.id) == [OrderV2(1, ["a"]), OrderV2(2, ["b"])]
        assert sorted(await plain.count(2)) == [
            ("application/json", {"id": 1, "lines": ["a"]}),
            (MSGPACK, {"id": 2, "lines": ["b"]}),
        ]
        view = await app.messages.get(stored.id)
    assert view is not None
    assert (view.payload, view.content_type) == (b"\x82\xa2id\x02\xa5lines\x91\xa1b", MSGPACK)


async def test_versions_of_a_codec_are_upcast_too(deploy: MakeApp) -> None:
    first, app = deploy(codecs=[MsgpackCodec()]), deploy(codecs=[MsgpackCodec()])
    first.message("orders.placed", codec=MSGPACK)(OrderV1)
    app.message("orders.placed", codec=MSGPACK, version=2)(OrderV2)
    app.upcaster(OrderV2, 1)(several_lines)
    seen = receiving(app, OrderV2)
    async with app.worker(), first:
        await first.publish(OrderV1(1, "a"))
        await app.publish(OrderV2(2, []))

        assert sorted(await seen.count(2), key=lambda order: order.id) == [OrderV2(1, ["a"]), OrderV2(2, [])]


async def test_a_content_type_nobody_knows_is_buried_with_its_bytes_and_its_neighbours_are_handled(
    deploy: MakeApp,
) -> None:
    old, new = deploy(), deploy(codecs=[MsgpackCodec()])
    old.message("orders.placed")(OrderV2)
    new.message("orders.placed", codec=MSGPACK)(OrderV2)
    seen, later = receiving(old, OrderV2), receiving(new, OrderV2)
    async with old.worker():
        async with new:
            receipt = await new.publish(OrderV2(1, ["a"]))
        await old.publish(OrderV2(2, []))
        letter = await buried(old, receipt)

        assert await seen.count(1) == [OrderV2(2, [])]
    assert (letter.payload, letter.content_type) == (b"\x82\xa2id\x01\xa5lines\x91\xa1a", MSGPACK)
    assert str(letter.runs[0].error) == (
        "Unreadable: no codec for content type 'application/msgpack' here, only for application/json: give one to "
        "Mainspring(codecs=[…])"
    )
    async with new.worker():
        await new.dead.revive(receipt.id)
        assert await later.count(1) == [OrderV2(1, ["a"])]


async def test_what_was_signed_with_another_key_is_never_handled(deploy: MakeApp) -> None:
    app, stranger = deploy(codecs=[Signed(JsonCodec(), b"ours")]), deploy(codecs=[Signed(JsonCodec(), b"theirs")])
    for each in (app, stranger):
        each.message("orders.placed", codec=Signed.content_type)(OrderV2)
    seen = receiving(app, OrderV2)
    async with app.worker(), stranger:
        forged = await stranger.publish(OrderV2(1, []))
        await app.publish(OrderV2(2, []))
        letter = await buried(app, forged)

        assert await seen.count(1) == [OrderV2(2, [])]
    assert letter.payload.endswith(b'{"id":1,"lines":[]}')
    assert letter.runs[0].error == "Unreadable: codec 'application/vnd.shop.signed+json': the signature does not fit"


async def test_a_codec_that_fails_in_every_way_stops_nobody() -> None:
    class Hopeless(MsgpackCodec):
        content_type = "application/x-hopeless"

        def decoder(self, annotation: Any) -> Callable[[bytes], Any]:
            def decode(payload: bytes) -> Any:
                raise [StopIteration, StopAsyncIteration, MemoryError, RecursionError][payload[-1]]

            return decode

    app, seen = Mainspring("memory://", codecs=[Hopeless()]), Seen[int]()
    app.message("numbers", codec=Hopeless.content_type)(int)

    @app.consumer("numbers", retry=NO_RETRY)
    def threaded(value: int) -> None: ...

    @app.consumer("numbers", retry=NO_RETRY)
    async def waiting(value: int) -> None: ...

    @app.consumer("neighbours")
    async def neighbour(value: int) -> None:
        seen.add(value)

    async with app.worker():
        for number in range(4):
            await app.publish("numbers", number, validate=False)
        await app.publish("neighbours", 1)

        async def all_dead() -> bool:
            return len(await app.dead.list()) == 8

        await eventually(all_dead)
        assert await seen.count(1) == [1]
        assert {run.kind for run in await app.messages.runs("waiting")} == {"unreadable"}


async def test_a_process_knows_the_codecs_and_upcasters_of_its_module() -> None:
    app = packed.app
    async with app.worker():
        opening = await app._connection.opening("the test")
        older = Draft(uuid4(), "photos.taken", MsgpackCodec().encode({"name": "sea"}), MSGPACK)
        await opening.storage.mailbox.publish([older])
        await app.publish(packed.Photo("hill", 7))

        async def both() -> bool:
            return len(await app.messages.runs("develop")) == 2

        await eventually(both)
        outputs = [run.output for run in await app.messages.runs("develop")]
    assert sorted(map(str, outputs)) == ["hill, 7 wide", "sea, 100 wide"]
