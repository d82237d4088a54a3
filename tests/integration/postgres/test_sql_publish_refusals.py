"""What the SQL function refuses: with a sentence that says what to write, and nothing stored."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from mainspring.storage.postgres import PostgresStorage
from tests.integration.postgres.publishing import Client, call, count

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
OPTION, LIMIT, JSON = "22023", "54000", "22P02"


@pytest.fixture(scope="module")
def schema(postgres_url: str) -> Iterator[str]:
    """One for all: nothing is ever left in it."""
    name = f"refusals_{uuid4().hex[:8]}"
    with psycopg.connect(postgres_url, autocommit=True) as client:
        client.execute(PostgresStorage.ddl(name).encode())
        yield name
        client.execute(f"DROP SCHEMA {name} CASCADE".encode())


@pytest.fixture
def client(postgres_url: str) -> Iterator[Client]:
    with psycopg.connect(postgres_url, options="-c TimeZone=UTC") as client:
        yield client
        client.rollback()


def refusal(client: Client, schema: str, topic: object, *payload: object, **options: Any) -> psycopg.Error:
    """What the function says, once it is certain that it has stored nothing and spoilt nothing."""
    with pytest.raises(psycopg.Error) as caught, client.transaction():
        call(client, schema, topic, *payload, **options)
    assert count(client, schema) == 0
    return caught.value


@pytest.mark.parametrize(
    ("topic", "complaint"),
    [
        (None, "a topic is text like 'orders.placed', not NULL"),
        ("", "a topic is 1 to 255 characters, not 0: ''"),
        ("x" * 256, f"a topic is 1 to 255 characters, not 256: '{'x' * 100}'"),
        ("orders placed", "topic 'orders placed' has white space or a control character: use '.' or '-'"),
        ("orders\u3000placed", "topic 'orders\u3000placed' has white space or a control character: use '.' or '-'"),
        ("orders\n", "topic 'orders?' has white space or a control character: use '.' or '-'"),
        ("orders\x9f", "topic 'orders?' has white space or a control character: use '.' or '-'"),
        ("orders/placed", "topic 'orders/placed' has a '/': separate segments by '.', as in 'orders.placed'"),
        (
            "orders..placed",
            "topic 'orders..placed' has an empty segment: write one dot between segments, none at the ends",
        ),
        (".orders", "topic '.orders' has an empty segment: write one dot between segments, none at the ends"),
        ("orders.", "topic 'orders.' has an empty segment: write one dot between segments, none at the ends"),
        ("orders.*", "topic 'orders.*' has a wildcard: publish to a plain topic"),
        ("orders.#", "topic 'orders.#' has a wildcard: publish to a plain topic"),
        ("o'rders.*", "topic 'o''rders.*' has a wildcard: publish to a plain topic"),
    ],
)
def test_a_topic_that_cannot_be_published_to_says_why(
    client: Client, schema: str, topic: str | None, complaint: str
) -> None:
    said = refusal(client, schema, topic, "1")

    assert (said.sqlstate, said.diag.message_primary) == (OPTION, complaint)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"delay": HOUR, "at": NOON}, "delay and at were both given: a message has one due time, pass one of them"),
        ({"delay": "-1 hour"}, "delay='-01:00:00' is negative: leave it out to deliver now"),
        ({"delay": "101 years"}, "'101 years' is longer than a hundred years: give a shorter time"),
        (
            {"delay": timedelta(days=36500, seconds=1)},
            "'36500 days 00:00:01' is longer than a hundred years: give a shorter time",
        ),
        (
            {"expires_in": timedelta(days=36501)},
            "'36501 days' is longer than a hundred years: give a shorter time",
        ),
        (
            {"at": "infinity"},
            "at and expires_at must be in the years 1 to 9999: leave out what shall never be",
        ),
        (
            {"at": "0001-12-31 BC"},
            "at and expires_at must be in the years 1 to 9999: leave out what shall never be",
        ),
        (
            {"expires_at": "10000-01-01 00:00+00"},
            "at and expires_at must be in the years 1 to 9999: leave out what shall never be",
        ),
        (
            {"at": "2001-01-01 00:00+00", "past": "raise"},
            "at='2001-01-01 00:00:00+00' has passed: give a later time, or past => 'run' to deliver it now",
        ),
        ({"past": "skip"}, "past='skip' is not one of 'run', 'raise'"),
        (
            {"expires_in": HOUR, "expires_at": NOON},
            "expires_in and expires_at were both given: a message expires once, pass one of them",
        ),
        (
            {"expires_in": timedelta()},
            "expires_in='00:00:00' is not after delay='00:00:00': it would never be delivered",
        ),
        (
            {"expires_in": "-1 hour"},
            "expires_in='-01:00:00' is not after delay='00:00:00': it would never be delivered",
        ),
        (
            {"expires_in": HOUR, "delay": HOUR},
            "expires_in='01:00:00' is not after delay='01:00:00': it would never be delivered",
        ),
        (
            {"expires_at": NOON, "at": NOON},
            (
                "expires_at='2030-01-01 12:00:00+00' is not after at='2030-01-01 12:00:00+00': "
                "it would never be delivered"
            ),
        ),
        ({"priority": "hihg"}, "priority='hihg' is not one of 'urgent', 'high', 'normal', 'low'"),
        ({"priority": ""}, "priority='' is not one of 'urgent', 'high', 'normal', 'low'"),
        ({"key": ""}, "key must be 1 to 200 characters, not 0: ''"),
        ({"key": "k" * 201}, f"key must be 1 to 200 characters, not 201: '{'k' * 100}'"),
        ({"key": "a\tb"}, "key='a?b' has a control character: remove it"),
        ({"correlation_id": ""}, "correlation_id must be 1 to 200 characters, not 0: ''"),
        ({"correlation_id": "a\x7f"}, "correlation_id='a?' has a control character: remove it"),
        ({"to_group": ""}, "to_group must be 1 to 200 characters, not 0: ''"),
        ({"to_group": "a/b"}, "to_group='a/b' has a '/': use '.', '-' or '_'"),
        ({"content_type": "JSON"}, "content_type='JSON' must be like 'application/json; version=2'"),
        (
            {"content_type": "application/json; version=0"},
            "content_type='application/json; version=0' must be like 'application/json; version=2'",
        ),
        (
            {"content_type": "application/msgpack"},
            "content_type='application/msgpack' is not JSON: pass the payload as bytea",
        ),
        ({"headers": "[1]"}, "headers='[1]' must be an object of text to text"),
        ({"headers": "null"}, "headers='null' must be an object of text to text"),
        ({"headers": {"a": 1}}, "header 'a': 1 must be text to text: put quotes around it"),
        ({"headers": {"a": None}}, "header 'a': null must be text to text: put quotes around it"),
        ({"headers": {"": "a"}}, "a header has an empty name: remove it, or name it"),
        (
            {"headers": {"Mainspring-Slice": "a"}},
            "header 'Mainspring-Slice' begins with 'mainspring-', which the library keeps for itself: rename it",
        ),
    ],
)
def test_an_option_that_cannot_be_meant_is_named(
    client: Client, schema: str, options: dict[str, Any], complaint: str
) -> None:
    said = refusal(client, schema, "a", "1", **options)

    assert (said.sqlstate, said.diag.message_primary) == (OPTION, complaint)


@pytest.mark.parametrize(
    ("payload", "state", "complaint"),
    [
        ("hello", JSON, "the payload for topic 'a' is not JSON: Token \"hello\" is invalid."),
        ("", JSON, "the payload for topic 'a' is not JSON: The input string ended unexpectedly."),
        ('{"a":', JSON, "the payload for topic 'a' is not JSON: The input string ended unexpectedly."),
        ("[" + '{"a":1},' * 100, JSON, "the payload for topic 'a' is not JSON: The input string ended unexpectedly."),
        (
            '"\\ud800"',
            JSON,
            "the payload for topic 'a' is not JSON: Unicode low surrogate must follow a high surrogate.",
        ),
        (
            "[" * 65 + "]" * 65,
            LIMIT,
            "the payload for topic 'a' nests deeper than 64 levels: flatten it, or send a reference to it",
        ),
        (
            "[[]," + "[" * 64 + "]" * 64 + "]",
            LIMIT,
            "the payload for topic 'a' nests deeper than 64 levels: flatten it, or send a reference to it",
        ),
        (
            '{"a":[' * 33 + "]}" * 33,
            LIMIT,
            "the payload for topic 'a' nests deeper than 64 levels: flatten it, or send a reference to it",
        ),
        (
            "[" * 262_144,
            LIMIT,
            "the payload for topic 'a' nests deeper than 64 levels: flatten it, or send a reference to it",
        ),
    ],
)
def test_a_payload_that_no_handler_could_read_is_refused(
    client: Client, schema: str, payload: str, state: str, complaint: str
) -> None:
    said = refusal(client, schema, "a", payload)

    assert (said.sqlstate, said.diag.message_primary) == (state, complaint)


def test_a_refusal_of_json_shows_the_place_and_what_to_write(client: Client, schema: str) -> None:
    said = refusal(client, schema, "a", '{"fine": 1,\n "wrong": hello}')

    place = 'line 2:  "wrong": hello...' if client.info.server_version >= 140_000 else 'line 1: {"fine": 1,'
    assert said.diag.message_detail == f"JSON data, {place}"
    assert said.diag.message_hint == "Write JSON text, put to_jsonb(...) around a value, or pass bytes as bytea."


def test_a_payload_over_the_limit_is_refused_with_both_numbers(client: Client, schema: str) -> None:
    said = refusal(client, schema, "a", f'"{"x" * 262_144}"')

    assert (said.sqlstate, said.diag.message_primary) == (
        LIMIT,
        (
            "the payload for topic 'a' is 262,146 bytes, over the limit of 262,144: store it elsewhere and send a "
            f'reference, or UPDATE "{schema}".setting SET payload_limit = ...'
        ),
    )


@pytest.mark.parametrize(
    "payload",
    [
        "[" * 64 + "]" * 64,
        "[[]," + "[" * 63 + "]" * 63 + "]",
        '"' + "[{" * 100 + '"',
        "[" + '"\\"[[",' * 100 + "1]",
        "[" + "[]," * 100 + "1]",
        '"\\ud83d\\ude00 \\u0000 \\\\u0000 \\\\ud800"',
    ],
)
def test_what_only_looks_deep_or_broken_is_stored(client: Client, schema: str, payload: str) -> None:
    call(client, schema, "a", payload)

    assert count(client, schema) == 2
