"""A trace that begins in one process and goes on in another, with nothing between them but the database."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.faults.nursery import nursery


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path, postgres_url: str) -> str:
    return f"sqlite:///{tmp_path}/shop.db" if request.param == "sqlite" else postgres_url


def spans_of(what: str, database: str, schema: str, folder: Path) -> dict[str, Any]:
    """The spans of a process of its own, by their names."""
    written = folder / what
    with written.open("wb") as log:
        process = nursery().start("tests.integration.app.traced", json.dumps([what, database, schema]), log)
    assert process.wait(100) == 0, written.read_text()
    return {span["name"]: span for span in json.loads(written.read_text())}


def test_what_one_process_publishes_another_handles_in_the_same_trace(
    database: str, postgres_schema: str, tmp_path: Path
) -> None:
    first = spans_of("publish", database, postgres_schema, tmp_path)
    second = spans_of("work", database, postgres_schema, tmp_path)

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
