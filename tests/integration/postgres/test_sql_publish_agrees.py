"""The same message through Python and through SQL: both refuse it, or both store the same rows."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import psycopg
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mainspring.app.message.catalogue import Catalogue
from mainspring.app.message.envelope import Envelope
from mainspring.app.names import check_group
from mainspring.model.errors import MainspringError
from mainspring.model.message import Draft
from mainspring.storage.operation import HandSet
from mainspring.storage.postgres import PostgresStorage
from mainspring.storage.script import run
from mainspring.timing.clock import SystemClock
from tests.integration.postgres.acting import declare
from tests.integration.postgres.publishing import Blocking, Client, call, stored

LIMIT = 400
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
REFUSED = {"22023", "54000", "22P02"}
CI = settings(
    max_examples=250, deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow]
)
LARGE = settings(CI, max_examples=10_000, derandomize=False, print_blob=True)


def _nested(depth: int) -> list[Any]:
    nest: list[Any] = []
    for _ in range(depth - 1):
        nest = [nest]
    return nest


# No driver sends a NUL or half a character to PostgreSQL: those never reach the function.
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=12)
edges = st.sampled_from([0, 1, 199, 200, 201, 254, 255, 256]).map(lambda length: "ö" * length)
odd = st.sampled_from("\u0085\u00a0\u180e\u200b\u2028\u3000\x1f\x7f\x9f \\'")
sound_names = st.sampled_from(["order:42", "it's", "größe"])
names = sound_names | texts | edges | odd
sound_topics = st.sampled_from(["orders.placed", "orders.paid", "orders.a.b", "nobody.cares", "größe"])
topics = (
    sound_topics
    | st.sampled_from(["orders..a", ".a", "a.", "a.*", "a.#", "a/b"])
    | edges
    | odd.map(lambda sign: f"orders.{sign}x")
)
numbers = st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    st.none() | st.booleans() | numbers | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=4,
)
payloads = (
    values
    | st.binary(max_size=8)
    | st.sampled_from([63, 64, 65]).map(_nested)
    | st.sampled_from([LIMIT - 2, LIMIT - 1]).map(lambda length: "x" * length)
)

Times = tuple[timedelta | None, timedelta | None, timedelta | tuple[timedelta] | None]
"""The delay; the instant, from now; the expiry, as a length or, in a tuple, as an instant from now."""
sound_times: st.SearchStrategy[Times] = st.sampled_from(
    [
        (None, None, None),
        (MINUTE, None, None),
        (timedelta(days=36_500), None, None),
        (None, HOUR, None),
        (None, -HOUR, None),
        (MINUTE, None, HOUR),
        (MINUTE, None, (HOUR,)),
        (None, HOUR, (2 * HOUR,)),
        (None, HOUR, MINUTE),
        (None, None, (-HOUR,)),
    ]
)
lengths = st.sampled_from([-MINUTE, timedelta(), MINUTE, HOUR, timedelta(days=36_500), timedelta(days=36_501)])
offsets = st.sampled_from([-HOUR, HOUR, timedelta(days=40_000)])
times = st.tuples(st.none() | lengths, st.none() | offsets, st.none() | lengths | st.tuples(offsets))


@dataclass(frozen=True)
class Case:
    """The arguments of one publish, in the words of Python."""

    topic: str
    payload: Any
    times: Times
    options: dict[str, Any]
    group: str | None


sound = st.builds(
    Case,
    topic=sound_topics,
    payload=values | st.binary(max_size=8),
    times=sound_times,
    options=st.fixed_dictionaries(
        {},
        optional={
            "key": sound_names,
            "priority": st.sampled_from(["urgent", "high", "normal", "low"]),
            "headers": st.dictionaries(texts.filter(bool), texts, max_size=3),
            "correlation_id": sound_names,
            "past": st.just("run"),
        },
    ),
    group=st.none() | st.none() | sound_names,
)
doubts: dict[str, st.SearchStrategy[Any]] = {
    "topic": topics,
    "payload": payloads,
    "times": times,
    "options": st.fixed_dictionaries(
        {},
        optional={
            "key": names,
            "priority": st.just("hihg"),
            "headers": st.dictionaries(texts, texts, max_size=2)
            | st.sampled_from(["mainspring-slice", "MAINSPRING-", "mainspring"]).map(lambda name: {name: "1"}),
            "correlation_id": names,
            "past": st.sampled_from(["raise", "skip"]),
        },
    ),
    "group": names | st.just("a/b"),
}
doubtful = st.sampled_from(sorted(doubts)).flatmap(
    lambda field: st.builds(lambda case, value: replace(case, **{field: value}), sound, doubts[field])
)
cases = sound | doubtful | doubtful | doubtful  # most doubts come to nothing


def python(case: Case, now: datetime) -> Draft | None:
    """The draft that Python makes of it, None when it refuses."""
    delay, at, expires = case.times
    options = {**case.options, "delay": delay, "at": None if at is None else now + at}
    options["expires"] = now + expires[0] if isinstance(expires, tuple) else expires
    try:
        group = None if case.group is None else check_group(case.group)
        return Envelope(Catalogue(), LIMIT, SystemClock()).draft(case.topic, case.payload, options, group=group)
    except MainspringError:
        return None


def function(client: Client, schema: str, case: Case, now: datetime) -> bool:
    """Whether the function stores it."""
    delay, at, expires = case.times
    options = {**case.options, "to_group": case.group, "delay": delay}
    options["at"] = None if at is None else now + at
    options |= {"expires_at": now + expires[0]} if isinstance(expires, tuple) else {"expires_in": expires}
    payload = case.payload if isinstance(case.payload, bytes) else msgspec.json.encode(case.payload).decode()
    try:
        with client.transaction():
            call(client, schema, case.topic, payload, **options)
    except psycopg.Error as error:
        if error.sqlstate not in REFUSED:
            raise
        return False
    return True


async def test_what_python_refuses_sql_refuses_and_what_both_accept_is_stored_alike(
    storage: PostgresStorage, postgres_url: str, postgres_schema: str, large: bool
) -> None:
    await declare(storage, "mail", "orders.placed", "orders.*")
    await declare(storage, "analytics", "orders.#")
    seen = {"refused": 0, "delivered": 0, "parked": 0}

    with psycopg.connect(postgres_url) as client:
        client.execute(f"UPDATE {postgres_schema}.setting SET payload_limit = {LIMIT}".encode())
        client.commit()

        @(LARGE if large else CI)
        @given(cases)
        def agree(case: Case) -> None:
            now = datetime.now(UTC).replace(microsecond=0)
            draft = python(case, now)
            with client.transaction(force_rollback=True):
                accepted, by_sql = function(client, postgres_schema, case, now), stored(client, postgres_schema)
            assert accepted == (draft is not None)
            if draft is None:
                seen["refused"] += 1
                return
            seen["parked" if by_sql["parked"] else "delivered"] += 1
            with client.transaction(force_rollback=True):
                at = HandSet(by_sql["message"][0]["published_at"])
                run(Blocking(client), storage.enlisted(clock=at).mailbox.publish.script([draft]))
                by_python = stored(client, postgres_schema)
            assert by_python == by_sql

        agree()

    assert min(seen.values()) >= 30, seen
