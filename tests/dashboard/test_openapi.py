"""The document says what is served, and what is served keeps to it."""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import hypothesis
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase
from schemathesis.checks import (
    content_type_conformance,
    not_a_server_error,
    response_schema_conformance,
    status_code_conformance,
)

from mainspring.dashboard.api import TABLE
from mainspring.dashboard.openapi import document
from tests.dashboard.scene import OPERATOR, Scene
from tests.house.tree import ROOT

DOCUMENT = document(TABLE, "1")
SCHEMA: Any = schemathesis.openapi.from_dict(DOCUMENT)
OPERATIONS = [(method.upper(), path) for path, methods in DOCUMENT["paths"].items() for method in methods]
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
EXAMPLES, MANY = 10, 100
"""Of each route; the latter under `--large`."""


@pytest.fixture(scope="module")
def shop(postgres_url: str) -> Iterator[Any]:
    """A shop that is served: where, and the ids of some of its messages. It is on the database that refuses most."""
    schema = f"fuzzed_{uuid4().hex[:12]}"
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.dashboard.fuzzed", postgres_url, schema],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        yield json.loads(process.stdout.readline())
    finally:
        process.communicate("")
    assert process.returncode == 0


def test_every_route_stands_in_it_once_with_all_it_takes() -> None:
    assert set(OPERATIONS) == {(route.method, route.path) for route in TABLE}
    for route in TABLE:
        told = DOCUMENT["paths"][route.path][route.method.lower()]
        named = {each["name"] for each in told.get("parameters", ())}
        if route.changes:
            shape = told["requestBody"]["content"]["application/json"]["schema"]
            if "$ref" in shape:
                shape = DOCUMENT["components"]["schemas"][shape["$ref"].rpartition("/")[2]]
            named |= set(shape["properties"])
        assert named == set(route.takes.__struct_fields__)
        assert told["summary"]


def test_every_type_of_a_field_can_be_freed() -> None:
    # msgspec crashes where a union has a mapping or a tuple beside text with a pattern or a number with bounds.
    program = (
        "import gc, typing, msgspec\n"
        "from mainspring.dashboard.api import TABLE\n"
        "for takes in {route.takes for route in TABLE}:\n"
        "    for kind in typing.get_type_hints(takes, include_extras=True).values():\n"
        "        msgspec.json.Decoder(kind)\n"
        "gc.collect()"
    )

    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_no_two_types_share_a_name() -> None:
    kinds = {kind for route in TABLE for kind in (route.takes, route.returns) if kind is not None}

    assert len({kind.__name__ for kind in kinds}) == len(kinds)


async def test_it_is_served_to_who_is_known(scene: Scene) -> None:
    async with scene.client() as stranger, scene.viewer() as viewer:
        refused = await stranger.get("/api/openapi.json")
        served = (await viewer.get("/api/openapi.json")).json()

    assert refused.status_code == 401
    assert served["openapi"] == "3.1.0"
    assert served["paths"] == DOCUMENT["paths"]


NAMES = {"group": "ship", "topic": "mail.sync", "work": "inbox"}


def _name_what_is_there(case: Any, path: str, id: str) -> None:
    """Names are drawn at random, and nobody has them: every second time they are of something that is there."""
    if "id" in (case.path_parameters or {}):
        case.path_parameters["id"] = id
    there = {**NAMES, "name": "porter" if "workers" in path else "weekly"}
    for said in (case.body, case.query):
        if isinstance(said, dict):
            said.update({name: value for name, value in there.items() if name in said})


# Whoever asks here would be traced for nothing: what answers is another process, which is measured.
@pytest.mark.unmeasured
@pytest.mark.parametrize(("method", "path"), OPERATIONS)
def test_whatever_is_asked_within_the_document_is_answered_by_it(
    shop: Any, method: str, path: str, large: bool
) -> None:
    statuses: Counter[int] = Counter()
    # Wrong tokens are counted by client: whoever logs in here is another one than those who know theirs.
    headers = {"Authorization": f"Bearer {OPERATOR}", "X-Forwarded-For": "192.0.2.1"}
    if path == "/api/login":
        headers = {"X-Forwarded-For": "192.0.2.2"}

    @hypothesis.settings(
        max_examples=MANY if large else EXAMPLES,
        database=None,
        derandomize=True,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @hypothesis.given(case=SCHEMA[path][method].as_strategy())
    def ask(case: Any) -> None:
        if statuses.total() % 2:
            _name_what_is_there(case, path, shop["ids"][statuses.total() % len(shop["ids"])])
        answer = case.call_and_validate(base_url=shop["url"], headers=headers, checks=CHECKS)
        statuses[answer.status_code] += 1

    ask()

    assert statuses.total() >= 1
    assert path == "/api/login" or not {401, 403, 429} & statuses.keys(), statuses
