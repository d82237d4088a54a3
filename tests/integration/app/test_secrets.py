"""What is in messages and in the address of the database is in no metric, and in no span of ours."""

from pathlib import Path
from typing import Any

import pytest

from mainspring import Mainspring, errors, events
from tests.integration.app.shop import Seen
from tests.integration.app.tracing import Spans

CANARY = "canary-4242"


async def test_no_metric_and_no_span_holds_what_is_in_a_message(tmp_path: Path, spans: Spans) -> None:
    app = Mainspring(f"sqlite:///{tmp_path}/vault.db", name="vault")
    ended: Seen[Any] = Seen()
    app.on(events.Dead, ended.add)

    @app.consumer("cards.charge", retry="none")
    async def charge(card: dict[str, int]) -> None: ...

    @app.consumer("cards.charge", retry="none")
    def block(card: dict[str, str]) -> None:
        raise RuntimeError("the bank is away")

    async with app.worker():
        await app.publish("cards.charge", {"number": CANARY}, headers={"pin": CANARY}, key=CANARY, validate=False)
        await ended.count(2)
        metrics = await app.metrics()

    assert "cards.charge" in metrics
    assert CANARY not in metrics
    told = [span.to_json() for span in await spans.named("process cards.charge", 2)]
    assert CANARY not in "".join([*told, (await spans.one("publish cards.charge")).to_json()])


async def test_no_span_holds_the_password_of_a_database_that_is_away(spans: Spans) -> None:
    app = Mainspring(f"postgresql://vault:{CANARY}@127.0.0.1:1/vault?password={CANARY}")

    async with app:
        with pytest.raises(errors.StorageUnavailable):
            await app.publish("cards.charge", 1)

    told = (await spans.one("publish cards.charge")).to_json()
    assert "cannot be reached" in told
    assert CANARY not in told


async def test_no_span_holds_the_password_of_a_url_that_an_exception_quotes(spans: Spans) -> None:
    app = Mainspring("memory://", tracing=True)

    @app.consumer("vaults.opened", retry="none")
    async def open_vault(vault: int) -> None:
        raise ConnectionError(f"cannot reach postgresql://vault:{CANARY}@127.0.0.1/vault{vault}")

    async with app.worker():
        await app.publish("vaults.opened", 1)
        (told,) = await spans.named("process vaults.opened", 1)

    assert told.status.description == "cannot reach postgresql://…@127.0.0.1/vault1"
    assert CANARY not in told.to_json()
