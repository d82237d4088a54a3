"""Schedules in a test that cannot be on time: what overlaps, what waits, what was missed."""

import pytest

from mainspring import Context, Mainspring, intervals
from tests.unit.testing.hours import HOUR, NOON, hours


@pytest.mark.parametrize(
    ("overlap", "began", "skipped"),
    [
        # From 13:00 to 15:30: those of 14:00 and 15:00 are left out, wait for it, or were begun beside it.
        ("skip", [3.5, 4, 5], 2),
        ("queue", [3.5, 3.5, 3.5, 4, 5], 0),
        ("allow", [3.5, 3.5, 3.5, 4, 5], 0),
        ("cancel", [3.5, 3.5, 4, 5], 0),
    ],
)
async def test_what_came_due_while_a_handler_ran_met_it_running(
    app: Mainspring, overlap: str, began: list[float], skipped: int
) -> None:
    meant: list[float] = []

    with app.testing(start=NOON) as kit:

        @app.recurring("0 * * * *", overlap=overlap, timeout="1d")  # type: ignore[arg-type]
        async def slow(ctx: Context) -> None:
            assert ctx.scheduled_for is not None
            meant.append((ctx.scheduled_for - NOON) / HOUR)
            if len(meant) == 1:
                kit.elapse("150m")

        await kit.advance("5h")
        view = await app.schedules.get("slow")

        assert hours(kit, "slow") == began
        assert view is not None
        assert view.skipped == skipped
        assert view.missed == 0
    assert meant[0] == 1
    assert meant[-2:] == [4, 5]


async def test_a_run_in_retry_counts_as_unfinished(app: Mainspring) -> None:
    @app.recurring("0 * * * *", retry=intervals("90m"))
    async def fragile(ctx: Context) -> None:
        if ctx.attempt == 1 and ctx.scheduled_for == NOON + HOUR:
            raise OSError("away")

    with app.testing(start=NOON) as kit:
        await kit.advance("4h")

        assert hours(kit, "fragile") == [1, 2.5, 3, 4]
        assert [ran.outcome for ran in kit.runs] == ["failed", "done", "done", "done"]


async def test_what_waits_for_an_earlier_run_is_pending_and_says_so(app: Mainspring) -> None:
    @app.recurring("0 * * * *", overlap="queue", retry=intervals("3h"))
    async def fragile(ctx: Context) -> None:
        if ctx.attempt == 1 and ctx.scheduled_for == NOON + HOUR:
            raise OSError("away")

    with app.testing(start=NOON) as kit:
        await kit.advance("2h")
        assert [repr(each) for each in kit.pending] == [
            "<pending fragile(None), due in 2h, after attempt 1>",
            "<pending fragile(None), waits for an earlier run of its schedule>",
        ]

        await kit.advance("2h")

        assert hours(kit, "fragile") == [1, 4, 4, 4, 4]
        assert kit.pending == []


async def test_time_that_nobody_was_there_for_is_a_matter_of_the_misfire_policy(app: Mainspring) -> None:
    for policy in ("latest", "skip", "all"):

        @app.recurring("0 * * * *", group=policy, misfire=policy)
        async def report() -> None: ...

    with app.testing(start=NOON) as kit:
        kit.elapse("210m")
        await kit.drain()

        assert (hours(kit, "latest"), hours(kit, "skip"), hours(kit, "all")) == ([3.5], [], [3.5, 3.5, 3.5])


async def test_jitter_delays_the_run_and_not_what_it_is_for(app: Mainspring) -> None:
    @app.recurring("0 * * * *", jitter="10m")
    async def report(ctx: Context) -> None:
        assert ctx.scheduled_for is not None
        assert ctx.scheduled_for.minute == 0

    with app.testing(start=NOON) as kit:
        await kit.advance("10h")
        late = [ran.at.minute * 60 + ran.at.second for ran in kit.runs]

    assert all(0 <= each < 600 for each in late)
    assert len(set(late)) > 5
