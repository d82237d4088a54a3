"""What operators look for is found by an index, also where somebody has run ANALYZE."""

import re
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from typing import Any

import pytest

from mainspring.storage.sqlite import SqliteStorage
from mainspring.storage.sqlite.dialect import Dialect

LAST = 2**63 - 1
NONE = (None,)
ONE = (7).to_bytes(16, "big")
WHOLE = re.compile(r"SCAN (mainspring_\w+|[dmpqr])(?! VIRTUAL TABLE)\b")
"""A table of ours, by its name or the letter that stands for it."""
FILL = """
WITH RECURSIVE number(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < 5000)
INSERT INTO mainspring_message (
    id, topic, key, payload, content_type, published_at, copies, causation_id, correlation_id
)
SELECT
    CAST(printf('%016d', n) AS blob), 'topic', 'key' || n, x'7b7d', '', n, 1, CAST(printf('%016d', n / 2) AS blob),
    'basket:' || n / 5
FROM number;
INSERT INTO mainspring_delivery (message_id, group_name, priority, due_at, scheduled_for, published_at, key, held_by)
SELECT id, 'group' || rowid % 3, 2, published_at, published_at, published_at, key, CASE WHEN rowid % 5 = 0 THEN 'w' END
FROM mainspring_message;
INSERT INTO mainspring_dead (
    seq, message_id, group_name, topic, priority, epoch, attempt, deaths, scheduled_for, published_at, kind, error,
    buried_at, fingerprint
)
SELECT rowid, id, 'group' || rowid % 3, topic, 2, 1, 1, 0, 1, 1, 'error', 'boom', rowid, rowid % 7
FROM mainspring_message;
INSERT INTO mainspring_run (message_id, group_name, topic, attempt, status, started_at, finished_at)
SELECT id, 'group' || rowid % 3, topic, 1, 'done', 1, rowid FROM mainspring_message;
INSERT INTO mainspring_parked (message_id, topic, priority, due_at, scheduled_for, published_at, parked_at)
SELECT id, topic, 2, 1, 1, 1, rowid FROM mainspring_message;
ANALYZE;
"""


@pytest.fixture
async def filled(path: str) -> AsyncIterator[sqlite3.Connection]:
    storage = SqliteStorage(path)
    await storage.open()
    await storage.schema.migrate()
    await storage.close()
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(FILL)
        yield connection


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("via_index_live", (100, LAST, "live", "group1", LAST)),
        ("via_index_live", (100, LAST, "running", None, LAST)),
        ("via_index_keyed", (100, LAST, "live", None, "key7")),
        ("via_index_keyed", (100, LAST, "run", "topic", "key7")),
        ("via_index_dead", (100, LAST, "topic", None)),
        ("via_index_dead", (100, LAST, None, "3")),
        ("via_index_ended", (100, LAST, "done", None)),
        ("via_index_ended", (100, LAST, "done", "topic")),
        ("via_index_correlated", (100, LAST, "live", "basket:7", None)),
        ("via_index_correlated", (100, LAST, "dead", "basket:7", ONE)),
        ("via_index_correlated", (100, LAST, "run", "basket:7", ONE)),
        ("find_replacements", (ONE,)),
        ("scan_dead_group", (LAST, 10, "group1", *NONE * 7)),
        ("scan_dead_cause", (LAST, 10, "group1", *NONE * 5, "3", "delayed")),
        ("scan_ended_group", (LAST, 10, "done", "group1", *NONE * 3)),
        ("scan_parked_topic", (LAST, 10, "topic", *NONE * 4)),
        ("browse_live", ("[5, 7]", 50, "live", *NONE * 7, b"x", "basket:7", ONE, True, LAST)),
        ("browse_dead", ("[5, 7]", 50, *NONE * 8, b"x", "basket:7", ONE, True)),
        ("browse_ended", ("[5, 7]", 50, "done", *NONE * 7, b"x", "basket:7", ONE, True)),
        ("browse_parked", ("[5, 7]", 50, *NONE * 5, b"x", "basket:7", ONE, True)),
        ("via_index_live", (100, LAST, "retrying", None, LAST)),
        ("payload_sizes", ("[5, 7]", "live")),
        ("payload_sizes", ("[5, 7]", "run")),
        ("causes_known", (None, 2_000)),
        ("causes_count", ('[["mail", "a"], ["grave", "b"]]', 100)),
        ("causes_latest", ('[["mail", "a"], ["grave", "b"]]',)),
        ("chain", (ONE, 50, LAST)),
        ("runs_failed", (8, *NONE * 2)),
        ("dead_select_picked", (ONE, '["group1"]', *NONE * 5, 10)),
        ("cancel_find_picked", (ONE, '["group1"]')),
        ("cancel_parked_picked", (ONE, '[""]')),
        ("run_now", (ONE, '["group1"]', LAST)),
    ],
)
async def test_no_table_is_read_from_end_to_end(filled: sqlite3.Connection, name: str, args: tuple[Any, ...]) -> None:
    statement = Dialect("mainspring")(name, *args)

    plan = [row[3] for row in filled.execute(f"EXPLAIN QUERY PLAN {statement.sql}", statement.args)]

    assert [step for step in plan if "BLOOM" in step or WHOLE.match(step)] == []
    assert any("USING" in step for step in plan)
