"""The example of two services does what its README says: also when both workers are killed over and over."""

import json
from collections import defaultdict
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import aiormq
import pytest

from mainspring.model.redaction import redacted
from tests.integration.examples.readme import copied
from tests.services.brokers import SERVERS, listens
from tests.services.needs import need
from tests.services.postgres import new_database

RABBITMQ = SERVERS["rabbitmq"]
WORKERS = ("mainspring worker services.orders:app", "mainspring worker services.billing:app")
KILLS = 2


@pytest.fixture
async def renamed(postgres_url: str) -> AsyncIterator[dict[str, str]]:
    """What the example names on shared servers, and what this run of it has there."""
    need(listens(RABBITMQ), RABBITMQ.name, "make services")
    own = f"example-{uuid4().hex[:8]}"
    with new_database(postgres_url, own) as database:
        yield {
            "postgresql+asyncpg://postgres@localhost/orders": database.replace(
                "postgresql://", "postgresql+asyncpg://"
            ),
            "amqp://guest:guest@localhost/": RABBITMQ.url,
            "amqp://…@localhost/": redacted(RABBITMQ.url),
            "shop.events": f"{own}.events",
            "billing.orders": f"{own}.orders",
        }
    async with aiormq.connect(RABBITMQ.url) as connection:
        channel = await connection.channel()
        await channel.queue_delete(f"{own}.orders")
        await channel.exchange_delete(f"{own}.events")


def spans_of(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """The spans that both services have written, by their trace."""
    traces = defaultdict(list)
    for line in (folder / "traces.jsonl").read_text().splitlines():
        span = json.loads(line)
        traces[span["context"]["trace_id"]].append(span)
    return traces


async def test_every_command_of_the_page_works_and_no_kill_loses_or_doubles_an_invoice(
    tmp_path: Path, renamed: dict[str, str]
) -> None:
    with copied("two_services", tmp_path, renamed) as session:

        def kill() -> None:
            for worker in KILLS * WORKERS:
                session.kill(worker)

        session.follow({"orders?[1-200]": kill})
        traces = spans_of(session.folder)

    # The page itself asks for "201 orders, 201 invoices: 0 lost, 0 doubled".
    assert session.typed[-2:] == ["python -m services.audit", "python -m pytest --quiet"]
    assert [session.said[worker].count("killed\n") for worker in WORKERS] == [KILLS, KILLS]
    requests = {id: spans for id, spans in traces.items() if any(each["name"] == "POST /orders" for each in spans)}
    assert len(requests) == 201
    for spans in requests.values():
        named = {each["name"]: each for each in spans}
        request, published = named["POST /orders"], named["publish orders.placed"]
        assert (request["parent_id"], published["parent_id"]) == (None, request["context"]["span_id"])
        others = [each for each in spans if each not in (request, published)]
        assert {each["parent_id"] for each in others} == {published["context"]["span_id"]}
    first = next(iter(requests.values()))
    assert {(each["resource"]["attributes"]["service.name"], each["name"].split()[0]) for each in first} == {
        ("orders", "POST"),
        ("orders", "publish"),
        ("orders", "send"),
        ("billing", "receive"),
        ("billing", "process"),
    }
