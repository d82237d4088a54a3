"""What is published to a known type is checked where it is published, and where it is edited."""

import math
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, TypedDict

import msgspec
import pydantic
import pytest

from mainspring import NO_RETRY, Context, Mainspring, every
from mainspring.app.message.catalogue import Catalogue
from mainspring.app.message.envelope import MISSING
from mainspring.app.schedule.schedules import Schedules
from mainspring.model.errors import BadOption, BadPayload
from tests.unit.app.test_desk import bury


class Order(msgspec.Struct):
    id: int
    total: float


@dataclass
class Label:
    city: str
    lines: list[int] = field(default_factory=list)


class Parcel(pydantic.BaseModel):
    weight: float
    labels: list[str] = []


class Keyed(pydantic.BaseModel):
    id: int

    @pydantic.field_validator("id")
    @classmethod
    def look_up(cls, value: int) -> int:
        raise KeyError("boom")


class Note(TypedDict):
    text: str


def taking(kind: Any) -> Callable[[Any], Awaitable[None]]:
    async def take(payload: Any) -> None: ...

    take.__annotations__["payload"] = kind
    return take


@pytest.fixture
async def app() -> AsyncIterator[Mainspring]:
    app = Mainspring("memory://", name="shop")
    app.message("orders.placed")(Order)

    @app.consumer("labels.due", "labels.reprint.*", retry=NO_RETRY)
    async def print_label(label: Label) -> None: ...

    @app.consumer("labels.due", group="archive")
    async def keep_label(label: dict[str, Any]) -> None: ...

    @app.consumer("parcels")
    async def send_parcel(parcel: Parcel) -> None: ...

    @app.consumer("notes")
    async def write_note(note: Note | None) -> None: ...

    @app.consumer("anything")
    async def take_anything(payload: Any) -> None: ...

    @app.consumer("objects")
    async def take_object(payload: Mapping[str, Any]) -> None: ...

    for topic, kind in {"dicts": dict, "numbered": dict[int, Any], "keyed": Keyed}.items():
        app.consumer(topic, group=f"of_{topic}")(taking(kind))

    @app.consumer("bells")
    async def ring(ctx: Context) -> None: ...

    async with app:
        await app.declare()
        yield app


WRONG: list[tuple[str, Any, str]] = [
    ("orders.placed", {"id": 1, "total": "7"}, "orders.placed: $.total: expected float, got str. It must be Order"),
    ("orders.placed", {"total": 7.0}, "orders.placed: $: object missing required field id"),
    ("orders.placed", None, "orders.placed: $: expected object, got null"),
    ("orders.placed", b"{}", "orders.placed: $: expected a value, got bytes"),
    ("orders.placed", Label("Oslo"), "orders.placed: $: object missing required field id"),
    ("labels.due", {"city": "Oslo", "lines": [1, "2"]}, "labels.due: $.lines[1]: expected int, got str"),
    ("parcels", {"weight": "x", "labels": [1]}, "parcels: $.weight: input should be a valid number"),
    ("parcels", {"weight": 1, "labels": [1]}, "parcels: $.labels[0]: input should be a valid string"),
    ("notes", {"text": 7}, "notes: $.text: expected str, got int"),
    ("objects", 7, "objects: $: expected object, got int. It must be collections.abc.Mapping[str, typing.Any]"),
    ("dicts", [1], "dicts: $: expected object, got array. It must be dict"),
    ("dicts", None, "dicts: $: expected object, got null. It must be dict"),
    ("dicts", b"{}", "dicts: $: expected a value, got bytes. It must be dict"),
    ("numbered", {"x": 1}, "numbered: key in $: expected int, got str. It must be dict[int, typing.Any]"),
    ("keyed", {"id": 1}, "keyed: $: KeyError: 'boom' (test_validating.py:"),
]
FITTING: list[tuple[str, Any]] = [
    ("orders.placed", {"id": 1, "total": 7, "more": "is ignored"}),
    ("orders.placed", Order(1, 7.0)),
    ("labels.due", Label("Oslo")),
    ("labels.due", {"city": "Oslo"}),
    ("labels.reprint.now", {"town": "a wildcard checks nothing"}),
    ("parcels", Parcel(weight=1.5)),
    ("notes", None),
    ("notes", {"text": "hello"}),
    ("anything", {"id": "x"}),
    ("objects", {}),
    ("objects", Label("Oslo")),
    ("objects", {7: "its key is text in JSON"}),
    ("dicts", {"text": "hello"}),
    ("dicts", OrderedDict(text="hello")),
    ("bells", 7),
    ("nobody.listens", object.__name__),
]


@pytest.mark.parametrize(("topic", "payload", "says"), WRONG)
async def test_a_payload_that_does_not_fit_is_refused_with_its_path_and_nothing_is_stored(
    app: Mainspring, topic: str, payload: Any, says: str
) -> None:
    with pytest.raises(BadPayload) as refused:
        await app.publish(topic, payload)
    with pytest.raises(BadPayload):
        await app.publish_many([("anything", 1), (topic, payload)])

    assert str(refused.value).startswith(says)
    assert str(refused.value).endswith("change the payload, or pass validate=False")
    assert await app.messages.list("any") == []
    await app.publish(topic, payload, validate=False)
    assert await app.messages.list("any") != []


@pytest.mark.parametrize(("topic", "payload"), FITTING)
async def test_what_fits_or_is_of_no_known_type_is_stored(app: Mainspring, topic: str, payload: Any) -> None:
    assert (await app.publish(topic, payload)).status == "stored"


async def test_an_instance_of_the_type_is_not_read_again(app: Mainspring) -> None:
    odd: Any = Label(city=7)  # type: ignore[arg-type]

    assert (await app.publish("labels.due", odd)).status == "stored"
    assert (await app.publish(Order(1, "seven"))).status == "stored"  # type: ignore[arg-type]


async def test_an_instance_whose_nan_json_cannot_hold_is_refused(app: Mainspring) -> None:
    with pytest.raises(BadPayload, match=r"orders\.placed: \$\.total: expected float, got null"):
        await app.publish(Order(1, math.nan))
    with pytest.raises(BadPayload, match=r"parcels: \$\.weight: input should be a valid number"):
        await app.publish("parcels", Parcel(weight=math.inf))
    await app.publish(Order(1, math.nan), validate=False)


async def test_what_is_sent_must_fit_the_consumer_whatever_its_topic_is(app: Mainspring) -> None:
    @app.consumer("orders.placed", group="totals")
    async def add_up(order: dict[str, float]) -> None: ...

    @app.consumer("orders.placed", group="anything_goes")
    async def log(order: Any) -> None: ...

    await app.declare()

    with pytest.raises(BadPayload, match=r"orders\.placed: \$\[\.\.\.\]: expected float, got str"):
        await add_up.send({"id": "x"})  # type: ignore[dict-item]
    await log.send("text")  # type: ignore[arg-type,unused-ignore]
    await add_up.send({"total": 1.0})
    with pytest.raises(BadPayload):
        await app.publish("orders.placed", {"total": 1.0})
    with pytest.raises(BadPayload):
        await app.join([(add_up, {"id": "x"})], then=(log, 1))
    with pytest.raises(BadPayload):
        await app.join([(log, 1)], then=(add_up, {"id": "x"}))
    with pytest.raises(BadPayload):
        await log.send(1, then=(add_up, {"id": "x"}))  # type: ignore[arg-type,unused-ignore]
    await app.join([(add_up, {"id": "x"})], then=(log, 1), validate=False)


async def test_every_type_that_consumers_of_a_topic_take_must_be_fitted(app: Mainspring) -> None:
    @app.consumer("labels.due", group="count")
    async def count(label: Note) -> None: ...

    with pytest.raises(BadPayload, match="It must be Note"):
        await app.publish("labels.due", {"city": "Oslo"})
    with pytest.raises(BadPayload, match="It must be Label"):
        await app.publish("labels.due", {"text": "Oslo"})
    assert (await app.publish("labels.due", {"city": "Oslo", "text": "hello"})).status == "stored"


async def test_a_handler_publishes_what_fits(app: Mainspring) -> None:
    @app.consumer("orders.paid")
    async def forward(order: Any, ctx: Context) -> None:
        await ctx.publish("labels.due", order)

    async with app.testing() as kit:
        await app.publish("orders.paid", {"town": "Oslo"})
        (ran,) = await kit.drain()

    assert isinstance(ran.exception, BadPayload)


async def test_an_edited_payload_must_fit_too(app: Mainspring) -> None:
    [dead] = await bury(app, "print_label", topic="labels.due")

    with pytest.raises(BadPayload, match=r"labels\.due: \$\.city: expected str, got int"):
        await app.dead.revive(dead, payload={"city": 7})
    with pytest.raises(BadPayload, match=r"labels\.due: \$\.city: expected str, got int"):
        await app.messages.publish("labels.due", {"city": 7}, copy_of=dead)
    assert len(await app.dead.list()) == 1
    assert (await app.messages.publish("labels.due", copy_of=dead)).status == "stored"
    assert (await app.messages.publish("labels.due", {"city": 7}, validate=False)).status == "stored"
    assert await app.dead.revive(dead, payload={"city": 7}, validate=False) == 1


async def test_an_edited_payload_is_of_the_version_that_it_replaces() -> None:
    app = Mainspring("memory://", name="shop")
    app.message("orders.placed", version=2)(Order)

    @app.upcaster(Order, 1)
    def add_total(old: dict[str, Any]) -> dict[str, Any]:
        return {**old, "total": 0.0}

    @app.consumer()
    async def ship(order: Order) -> None: ...

    async with app:
        await app.declare()
        first, second = await bury(app, "ship", 2, topic="orders.placed")
        await app.dead.revive(first, payload={"id": 1})
        with pytest.raises(BadPayload, match=r"\$\.id: expected int, got str"):
            await app.dead.revive(second, payload={"id": "x"})
        with pytest.raises(BadPayload, match="object missing required field total"):
            await app.publish("orders.placed", {"id": 1})


async def test_a_version_that_is_not_known_here_is_left_to_newer_code() -> None:
    app = Mainspring("memory://", name="shop")
    app.message("orders.placed", version=2)(Order)
    draft = app._code.envelope.draft(
        {"lines": []}, MISSING, topic="orders.placed", instead_of="application/json; version=3"
    )

    assert draft.content_type == "application/json; version=3"


SCHEDULED: list[tuple[Callable[[Schedules], Awaitable[Any]], str]] = [
    (lambda s: s.put("x", every("1h"), "print_label", {"city": 7}), "x: {}: change the payload of the schedule 'x'"),
    (
        lambda s: s.put("x", every("1h"), topic="labels.due", payload={"city": 7}),
        "labels.due: {}: change the payload of the schedule 'x'",
    ),
    (
        lambda s: s.once("x", datetime.now(UTC) + timedelta(hours=1), "print_label", {"city": 7}),
        "x: {}: change the payload of the schedule 'x'",
    ),
    (
        lambda s: s.alter("hourly", then=("print_label", {"city": 7})),
        "labels.due: {}: write then=('print_label', payload)",
    ),
    (lambda s: s.trigger("hourly", payload={"city": 7}), "hourly: {}: trigger 'hourly' with another payload"),
    (lambda s: s.trigger("published", payload={"city": 7}), "labels.due: {}: trigger 'published' with another payload"),
]


@pytest.mark.parametrize(("call", "says"), SCHEDULED)
async def test_what_a_schedule_sends_must_fit_too(
    app: Mainspring, call: Callable[[Schedules], Awaitable[Any]], says: str
) -> None:
    await app.schedules.put("hourly", every("1h"), "print_label", {"city": "Oslo"})
    await app.schedules.put("published", every("1h"), topic="labels.due", payload={"city": "Oslo"})
    before = await app.schedules.list()

    with pytest.raises(BadPayload) as refused:
        await call(app.schedules)

    assert str(refused.value) == says.format("$.city: expected str, got int. It must be Label")
    assert await app.schedules.list() == before
    assert await app.messages.list("any") == []
    await app.schedules.trigger("hourly", payload=Label("Bergen"))


async def test_validate_is_yes_or_no(app: Mainspring) -> None:
    with pytest.raises(BadOption, match="validate='no' must be True or False"):
        await app.publish("orders.placed", {}, validate="no")  # type: ignore[arg-type]
    with pytest.raises(BadPayload):
        await app.publish("orders.placed", {}, validate=None)


def test_a_module_that_is_loaded_again_replaces_what_its_consumer_took() -> None:
    catalogue = Catalogue()
    catalogue.consumed("handle", ["numbers", "amounts"], int, catalogue.decoder(int))
    catalogue.consumed("count", ["numbers"], float, catalogue.decoder(float))
    catalogue.consumed("handle", ["texts"], str, catalogue.decoder(str))

    known = {topic: [each.annotation for each in expected] for topic, expected in catalogue.of_topic.items()}

    assert known == {"numbers": [float], "amounts": [], "texts": [str]}
    assert [each.annotation for each in catalogue.of_group["handle"]] == [str]
