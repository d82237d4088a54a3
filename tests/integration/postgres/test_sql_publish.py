"""``SELECT mainspring.publish(…)``: the same routing, times, ids and bell as from Python."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from uuid import RFC_4122, uuid4

import psycopg
import pytest
from psycopg.types.json import Json, Jsonb

from mainspring.model.message import Delivery
from mainspring.model.retention import Retention
from mainspring.model.verdict import DONE, Settlement
from mainspring.storage.postgres import PostgresStorage
from tests.integration.postgres.acting import TOPIC, claim, declare
from tests.integration.postgres.publishing import Client, call, stored

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


@pytest.fixture
def client(postgres_url: str) -> Iterator[Client]:
    with psycopg.connect(postgres_url, autocommit=True) as client:
        yield client


async def received(storage: PostgresStorage, group: str = "mail") -> Delivery:
    [delivery] = await claim(storage, group=group)
    return delivery


async def test_a_published_message_is_delivered_to_every_group_that_subscribes_once(
    storage: PostgresStorage, client: Client, postgres_schema: str
) -> None:
    await declare(storage, "mail")
    await declare(storage, "analytics", "orders.*", "orders.#")
    await declare(storage, "stock", "stock.#")

    made = call(client, postgres_schema, TOPIC, '{"a":1}')
    mail, analytics = await received(storage), await received(storage, "analytics")

    assert mail.message_id == analytics.message_id == made
    assert (mail.topic, mail.payload, mail.content_type) == (TOPIC, b'{"a":1}', "application/json")
    assert (mail.headers, mail.key, mail.correlation_id, mail.causation_id) == (None, None, None, None)
    assert mail.priority == 2
    assert await claim(storage, group="stock") == []


async def test_what_nobody_subscribes_to_is_parked_and_routed_later(
    storage: PostgresStorage, client: Client, postgres_schema: str
) -> None:
    made = call(client, postgres_schema, TOPIC, "1", key="order:1", delay=-timedelta())
    parked = stored(client, postgres_schema)["parked"]
    await declare(storage)

    routed = (await storage.upkeep.reroute(10)).routed

    assert [(row["topic"], row["key"]) for row in parked] == [(TOPIC, "order:1")]
    assert (routed, (await received(storage)).message_id) == (1, made)


async def test_every_option_reaches_the_handler(storage: PostgresStorage, client: Client, postgres_schema: str) -> None:
    identity = uuid4()
    await declare(storage)

    made = call(
        client,
        postgres_schema,
        TOPIC,
        "[1, 2]",
        key="order:1",
        at=NOON - timedelta(days=9999),
        priority="high",
        headers={"tenant": "größe", "a": 'quoted "text"\n'},
        correlation_id="basket:7",
        message_id=identity,
        expires_in=timedelta(hours=1),
    )
    delivery = await received(storage)

    assert made == delivery.message_id == identity
    assert (delivery.payload, delivery.key, delivery.priority) == (b"[1, 2]", "order:1", 1)
    assert delivery.headers == {"tenant": "größe", "a": 'quoted "text"\n'}
    assert (delivery.correlation_id, delivery.expired) == ("basket:7", False)
    assert delivery.scheduled_for == NOON - timedelta(days=9999)
    assert delivery.due_at == delivery.published_at


async def test_a_delay_counts_from_the_statement_and_an_instant_is_kept(
    storage: PostgresStorage, client: Client, postgres_schema: str
) -> None:
    await declare(storage)
    call(client, postgres_schema, TOPIC, "1", delay=15 * MINUTE, expires_at=NOON + timedelta(days=30000))
    call(client, postgres_schema, TOPIC, "2", at=NOON + timedelta(days=20000))

    rows = stored(client, postgres_schema)
    due = sorted(row["due_at"] - row["published_at"] for row in rows["delivery"])

    assert due[0] == 15 * MINUTE
    assert {row["scheduled_for"] for row in rows["delivery"]} >= {NOON + timedelta(days=20000)}
    assert {row["expires_at"] for row in rows["message"]} == {None, NOON + timedelta(days=30000)}
    assert await claim(storage) == []


@pytest.mark.parametrize(
    ("payload", "kept"),
    [
        ((), b"null"),
        ((None,), b"null"),
        (('{ "b": 1, "a": 1.50 }',), b'{ "b": 1, "a": 1.50 }'),
        (('"größe"',), '"größe"'.encode()),
        ((Json({"b": 1, "a": 2}),), b'{"b": 1, "a": 2}'),
        ((Jsonb({"bb": 1, "a": 2}),), b'{"a": 2, "bb": 1}'),
        (('"\\u0000"',), b'"\\u0000"'),
        ((b"\x00\xff",), b"\x00\xff"),
        ((b"",), b""),
    ],
)
async def test_text_is_stored_as_written_jsonb_as_postgresql_writes_it_and_bytes_as_bytes(
    storage: PostgresStorage, client: Client, postgres_schema: str, payload: tuple[object, ...], kept: bytes
) -> None:
    call(client, postgres_schema, TOPIC, *payload)

    [row] = stored(client, postgres_schema)["message"]

    kind = "application/octet-stream" if payload and isinstance(payload[0], bytes) else "application/json"
    assert (row["payload"], row["content_type"]) == (kept, kind)


@pytest.mark.parametrize(
    ("payload", "content_type"),
    [
        ("1", "application/json; version=12"),
        ("1", "application/vnd.shop+json"),
        (b"1", "application/msgpack"),
        (b"1", "application/vnd.shop.sealed; version=2"),
        (b"1", "application/json"),
    ],
)
async def test_another_version_or_codec_is_named_by_its_content_type(
    storage: PostgresStorage, client: Client, postgres_schema: str, payload: str | bytes, content_type: str
) -> None:
    await declare(storage)

    call(client, postgres_schema, TOPIC, payload, content_type=content_type)

    delivery = await received(storage)
    assert (delivery.payload, delivery.content_type) == (b"1", content_type)


async def test_the_same_id_again_stores_nothing_and_answers_the_id(
    storage: PostgresStorage, client: Client, postgres_schema: str
) -> None:
    identity = uuid4()
    await declare(storage)
    first = call(client, postgres_schema, TOPIC, "1", message_id=identity)
    before = stored(client, postgres_schema)

    again = call(client, postgres_schema, "other.topic", "2", key="k", message_id=identity)

    assert first == again == identity
    assert stored(client, postgres_schema) == before


async def test_an_id_is_refused_until_its_hour_is_over_and_then_stored_anew(
    storage: PostgresStorage, client: Client, postgres_schema: str
) -> None:
    identity = uuid4()
    await declare(storage)
    call(client, postgres_schema, TOPIC, "1", message_id=identity)
    await storage.mailbox.settle([Settlement((await received(storage)).claim, DONE)], "node")

    call(client, postgres_schema, TOPIC, "2", message_id=identity)
    within = await claim(storage)
    storage.now = datetime.now(UTC) + timedelta(hours=2)
    await storage.upkeep.prune(Retention(repeats=timedelta(hours=1)), 100)
    storage.now = None
    call(client, postgres_schema, TOPIC, "3", message_id=identity)

    assert within == []
    assert (await received(storage)).payload == b"3"


async def test_ids_are_made_by_the_servers_clock_and_grow(
    storage: PostgresStorage, client: Client, postgres_schema: str
) -> None:
    made = [call(client, postgres_schema, TOPIC, "1") for _ in range(50)]
    [published] = client.execute(f"SELECT max(published_at) FROM {postgres_schema}.message".encode()).fetchall()

    assert {(each.version, each.variant) for each in made} == {(7, RFC_4122)}
    assert sorted(made) == made
    assert len(set(made)) == 50
    assert abs((made[-1].int >> 80) - published[0].timestamp() * 1000) < 1000


async def test_a_message_straight_to_one_group_passes_the_others_by(
    storage: PostgresStorage, client: Client, postgres_schema: str
) -> None:
    await declare(storage, "mail")
    await declare(storage, "analytics")

    call(client, postgres_schema, "anything.at.all", "1", to_group="mail")

    assert (await received(storage)).topic == "anything.at.all"
    assert await claim(storage, group="analytics") == []


async def test_a_namespace_has_functions_of_its_own(
    storage: PostgresStorage, client: Client, postgres_url: str, postgres_schema: str
) -> None:
    await declare(storage, "mail")
    staging = PostgresStorage(postgres_url, schema=f"{postgres_schema}-staging")
    try:
        await staging.schema.migrate()
        await staging.open()
        await declare(staging, "mail")

        call(client, f"{postgres_schema}-staging", TOPIC, "1")

        assert [(each.topic, each.payload) for each in await claim(staging)] == [(TOPIC, b"1")]
        assert await claim(storage) == []
    finally:
        await staging.close()
        client.execute(f'DROP SCHEMA "{postgres_schema}-staging" CASCADE'.encode())


async def test_a_known_id_with_another_topic_or_payload_is_warned_of(
    storage: PostgresStorage, client: Client, postgres_schema: str
) -> None:
    told: list[str] = []
    client.add_notice_handler(lambda notice: told.append(f"{notice.severity_nonlocalized} {notice.message_primary}"))
    id = call(client, postgres_schema, TOPIC, '{"a": 1}')
    known = f"message {id} on topic '{{}}' is not stored: its id is known as a message on topic '{TOPIC}'{{}}"

    for topic, payload in ((TOPIC, '{"a": 1}'), (TOPIC, '{"a": 2}'), ("orders.paid", '{"a": 1}')):
        assert call(client, postgres_schema, topic, payload, message_id=id) == id

    first, second = known.format(TOPIC, " with another payload"), known.format("orders.paid", "")
    assert told == [f"WARNING {first}", f"WARNING {second}"]


async def test_only_who_sleeps_is_woken(storage: PostgresStorage, client: Client, postgres_schema: str) -> None:
    for group in ("mail", "awake"):
        await declare(storage, group)
    arm = f"INSERT INTO {postgres_schema}.bell VALUES (now() + interval '1 hour', 'mail', 'ear')"
    client.execute(arm.encode())
    client.execute(f"LISTEN mainspring_{postgres_schema}".encode())

    with client.transaction():
        call(client, postgres_schema, TOPIC, "1")
        call(client, postgres_schema, TOPIC, "2")

    assert [each.payload for each in client.notifies(timeout=60, stop_after=1)] == ["mail"]
    assert list(client.notifies(timeout=0)) == []
