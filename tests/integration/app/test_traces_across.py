"""A trace that begins in one process and goes on in another, with nothing between them but the database."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path, postgres_url: str) -> str:
    return f"sqlite:///{tmp_path}/shop.db" if request.param == "sqlite" else postgres_url


def spans_of(what: str, database: str, schema: str) -> dict[str, Any]:
    """The spans of a process of its own, by their names."""
    ran = subprocess.run(
        [sys.executable, "-m", "tests.integration.app.traced", what, database, schema],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return {span["name"]: span for span in json.loads(ran.stdout)}


def test_what_one_process_publishes_another_handles_in_the_same_trace(database: str, postgres_schema: str) -> None:
    first = spans_of("publish", database, postgres_schema)
    second = spans_of("work", database, postgres_schema)

    assert set(first) == {"checkout", "publish orders.placed"}
    assert set(second) == {"process orders.placed", "publish parcels.sent", "process parcels.sent"}
    assert {span["context"]["trace_id"] for span in (first | second).values()} == {
        first["checkout"]["context"]["trace_id"]
    }
    chain = [
        first["checkout"],
        first["publish orders.placed"],
        second["process orders.placed"],
        second["publish parcels.sent"],
        second["process parcels.sent"],
    ]
    assert [span["parent_id"] for span in chain] == [None, *(span["context"]["span_id"] for span in chain[:-1])]
    assert [link["context"]["span_id"] for link in second["process orders.placed"]["links"]] == [
        first["publish orders.placed"]["context"]["span_id"]
    ]
