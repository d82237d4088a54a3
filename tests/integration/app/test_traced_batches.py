"""The spans of batches tell what became of their messages, and of how many."""

from pathlib import Path

import pytest
from opentelemetry.trace import StatusCode

from mainspring import BatchContext, Cancel, Mainspring, Middleware, Snooze
from mainspring.app.consume.middleware import Next
from tests.integration.app.tracing import Spans, events_of, told

COUNTS = tuple(f"mainspring.{end}_count" for end in ("done", "failed", "snoozed", "cancelled", "released", "lost"))


@pytest.mark.parametrize(
    ("answers", "outcome", "counts"),
    [
        ([Snooze("1h"), Snooze("2h")], "snoozed", {"mainspring.snoozed_count": 2}),
        ([Cancel("sold out"), Cancel("sold out")], "cancelled", {"mainspring.cancelled_count": 2}),
        ([None, None], "done", {"mainspring.done_count": 2}),
        ([None, Snooze("1h")], "mixed", {"mainspring.done_count": 1, "mainspring.snoozed_count": 1}),
        ([Cancel("no"), OSError("no")], "failed", {"mainspring.cancelled_count": 1, "mainspring.failed_count": 1}),
        ([None, Snooze], "failed", {"mainspring.done_count": 1, "mainspring.failed_count": 1}),
    ],
)
async def test_a_batch_tells_how_many_ended_how(
    shop: Mainspring, spans: Spans, answers: list[object], outcome: str, counts: dict[str, int]
) -> None:
    @shop.consumer("orders.placed", batch=2, linger="1m", retry="none")
    async def ship(orders: list[str]) -> list[object]:
        return answers

    async with shop.worker():
        await shop.publish_many([("orders.placed", "tea"), ("orders.placed", "jam")])
        processed = await spans.one("process orders.placed")

    is_error = outcome == "failed"
    assert processed.status.status_code is (StatusCode.ERROR if is_error else StatusCode.UNSET)
    assert told(processed, "mainspring.outcome", *COUNTS) == {"mainspring.outcome": outcome, **counts}


async def test_a_batch_of_which_some_is_lost_or_cancelled_meanwhile_says_so(shop: Mainspring, spans: Spans) -> None:
    @shop.consumer("orders.placed", batch=3, linger="1m", retry="none")
    async def ship(orders: list[str], ctx: BatchContext) -> None:
        for run, reason in zip(ctx._batch.runs, ("lost", "cancelled", None), strict=True):
            if reason is not None:
                run.ask_to_stop(reason)
        raise OSError("the lorry is away")

    async with shop.worker():
        await shop.publish_many([("orders.placed", order) for order in ("tea", "jam", "rum")])
        processed = await spans.one("process orders.placed")

    assert told(processed, "mainspring.outcome", *COUNTS) == {
        "mainspring.outcome": "failed",
        "mainspring.lost_count": 1,
        "mainspring.cancelled_count": 1,
        "mainspring.failed_count": 1,
    }


async def test_what_fails_after_the_commit_of_a_batch_undoes_nothing_in_the_trace(tmp_path: Path, spans: Spans) -> None:
    class Careless(Middleware):
        async def handling_batch(self, ctx: BatchContext, call_next: Next) -> object:
            await call_next()
            raise OSError("the printer is on fire")

    app = Mainspring(f"sqlite:///{tmp_path}/shop.db", middleware=[Careless()])

    @app.consumer("orders.placed", transactional=True, batch=2, linger="1m")
    async def ship(orders: list[str]) -> None: ...

    async with app.worker():
        await app.publish_many([("orders.placed", "tea"), ("orders.placed", "jam")])
        processed = await spans.one("process orders.placed")

    assert processed.status.status_code is StatusCode.UNSET
    assert told(processed, "mainspring.outcome", *COUNTS) == {"mainspring.outcome": "done", "mainspring.done_count": 2}
    assert [said["exception.message"] for _, said in events_of(processed)] == ["the printer is on fire"]
