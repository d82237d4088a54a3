"""Fan-out in a test: windows come when the clock is turned, slices follow, and cursors are there to be looked at."""

from collections.abc import AsyncIterator, Iterator
from datetime import datetime, timedelta

import pytest

from mainspring import NO_RETRY, Cancel, Context, Mainspring, SeekResult, Slice, Snooze, Testing, errors
from mainspring.app.fanout import coordinator
from mainspring.app.fanout import fanouts as operating
from tests.unit.testing.hours import HOUR, NOON


class Etl:
    """A fan-out over three tenants, every hour, and what its slices were given."""

    def __init__(self, app: Mainspring, *, jitter: str = "0s", shards: tuple[str, ...] = ("a", "b", "c")) -> None:
        self.app = app
        self.shards = list(shards)
        self.done: list[Slice] = []
        self.answers: dict[str, object] = {}

        @app.fanout("etl", "payments", every="1h", jitter=jitter)
        def tenants() -> Iterator[str]:
            yield from self.shards

        @tenants.slices(retry=NO_RETRY)
        async def load(each: Slice) -> object:
            answer = self.answers.get(each.shard)
            if isinstance(answer, Exception):
                raise answer
            self.done.append(each)
            return answer

        self.tenants, self.load = tenants, load

    def told(self) -> list[tuple[str, datetime, datetime | None]]:
        """The slices since the last time this was asked."""
        told, self.done = [(each.shard, each.window, each.last) for each in self.done], []
        return sorted(told)

    async def standing(self) -> dict[str, datetime | None]:
        return {each.shard: each.completed for each in await self.app.fanouts.cursors("etl", "payments")}


async def test_every_shard_gets_a_slice_in_every_window_and_is_told_the_one_before(app: Mainspring) -> None:
    etl = Etl(app)
    with app.testing(start=NOON) as kit:
        await kit.advance("1h")
        first = etl.told()
        await kit.advance("1h")
        second = etl.told()
        view = await app.fanouts.get("etl", "payments")
        assert view is not None

    one, two = NOON + HOUR, NOON + 2 * HOUR
    assert first == [(shard, one, None) for shard in "abc"]
    assert second == [(shard, two, one) for shard in "abc"]
    assert (view.shards, view.completed, view.behind, view.last_window, view.oldest) == (3, 3, 0, two, two)
    assert (view.schedule, view.rhythm, view.next_window) == ("plan:etl:payments", "every 1h", two + HOUR)
    assert etl.done == []
    assert list(etl.tenants()) == ["a", "b", "c"]


async def test_slices_are_spread_over_the_jitter_in_the_same_way_every_time(app: Mainspring) -> None:
    etl = Etl(app, jitter="10m", shards=tuple(f"tenant-{n}" for n in range(50)))

    async def dues() -> list[datetime]:
        with app.testing(start=NOON) as kit:
            await kit.advance("1h")
            return [each.due_at for each in kit.pending]

    first, again = await dues(), await dues()

    assert first == again
    assert all(NOON + HOUR <= due < NOON + HOUR + timedelta(minutes=10) for due in first)
    assert max(first) - min(first) > timedelta(minutes=8)
    assert etl.done == []


async def test_only_success_advances_a_cursor(app: Mainspring) -> None:
    etl = Etl(app, shards=("cancelled", "dead", "done", "snoozed"))
    etl.answers = {"cancelled": Cancel("gone"), "dead": OSError("away"), "snoozed": Snooze("2h")}
    one, two = NOON + HOUR, NOON + 2 * HOUR

    with app.testing(start=NOON) as kit, kit.expect_dead(etl.load):
        await kit.advance("1h")
        first = await etl.standing()
        behind = [each.shard for each in await app.fanouts.cursors("etl", "payments", behind=True)]
        etl.told()
        etl.answers = {}
        await kit.advance("1h")
        second = etl.told()

    assert first == {"cancelled": None, "dead": None, "done": one, "snoozed": None}
    assert behind == ["cancelled", "dead", "snoozed"]
    # What is still on its way gets no second slice; what has failed for good is planned again.
    assert second == [("cancelled", two, None), ("dead", two, None), ("done", two, one)]


async def test_policies_are_followed_from_the_next_window_on(app: Mainspring) -> None:
    etl = Etl(app)
    fanouts = app.fanouts
    with app.testing(start=NOON) as kit:
        await kit.advance("1h")
        etl.told()
        await fanouts.edit("etl", "payments", every="3h", by="ann")
        await fanouts.edit("etl", "payments", "b", every="0s")
        await fanouts.edit("etl", "payments", "c", enabled=False)
        await kit.advance("1h")
        second = etl.told()
        await kit.advance("2h")
        third = etl.told()
        assert await fanouts.reset("etl", "payments")
        assert await fanouts.reset("etl", "payments", "c")
        await kit.advance("1h")
        last = etl.told()
        runs = [each.output for each in await app.schedules.runs("plan:etl:payments")]
        audit = [(each.by, each.action, each.subject, each.detail) for each in await app.audit(limit=9)]

    windows = [NOON + n * HOUR for n in range(6)]
    assert second == [("b", windows[2], windows[1])]
    assert third == [("a", windows[4], windows[1]), ("b", windows[3], windows[2]), ("b", windows[4], windows[3])]
    assert [shard for shard, _, _ in last] == ["a", "b", "c"]
    assert runs[::-1][:2] == ["3 slices", "1 slice; skipped: 1 disabled, 1 early"]
    assert audit[-1] == ("ann", "fanout edit", "etl|payments", "every=3h")


async def test_a_shard_whose_cursor_is_moved_back_covers_the_time_since(app: Mainspring) -> None:
    etl = Etl(app)
    with app.testing(start=NOON) as kit:
        await kit.advance("2h")
        etl.told()
        moved = await app.fanouts.seek("etl", "payments", "b", to=NOON, by="ann", reason="bad rates")
        [line] = [each for each in await app.audit() if each.action == "fanout seek"]
        await kit.advance("1h")
        third = etl.told()
        everything = await app.fanouts.seek("etl", "payments", to=None)
        await kit.advance("1h")
        fourth = etl.told()

    windows = [NOON + n * HOUR for n in range(5)]
    assert (moved, everything) == (SeekResult(1), SeekResult(3))
    assert (line.by, line.subject, line.detail) == ("ann", "etl|payments|b", f"to {NOON.isoformat()}: bad rates")
    assert third == [("a", windows[3], windows[2]), ("b", windows[3], NOON), ("c", windows[3], windows[2])]
    assert fourth == [(shard, windows[4], None) for shard in "abc"]


async def test_a_cursor_is_moved_only_where_there_is_one_and_to_an_instant(app: Mainspring) -> None:
    Etl(app)
    with app.testing(start=NOON):
        with pytest.raises(errors.BadOption, match="there is no fan-out 'etl refunds'"):
            await app.fanouts.seek("etl", "refunds", to=None)
        with pytest.raises(errors.BadOption, match="to='yesterday' must be an aware datetime"):
            await app.fanouts.seek("etl", "payments", to="yesterday")  # type: ignore[arg-type]
        assert await app.fanouts.seek("etl", "payments", "no such shard", to=NOON) == SeekResult()


async def test_cursors_are_moved_a_page_at_a_time_and_audited_once(
    app: Mainspring, monkeypatch: pytest.MonkeyPatch
) -> None:
    Etl(app, shards=("a", "b", "c", "d", "e"))
    with app.testing(start=NOON) as kit:
        await kit.advance("1h")
        monkeypatch.setattr(operating, "CHUNK", 2)

        moved = await app.fanouts.seek("etl", "payments", to=NOON)

        lines = [each.subject for each in await app.audit() if each.action == "fanout seek"]
    assert (moved, lines) == (SeekResult(5), ["etl|payments"])


async def test_windows_follow_a_cron_and_each_shard_rests_for_the_least_time_between(app: Mainspring) -> None:
    seen: list[datetime] = []

    @app.fanout("etl", "rates", cron="0 * * * *", every="2h", jitter="0s")
    def banks() -> list[str]:
        return ["a"]

    @banks.slices()
    async def load(each: Slice) -> None:
        seen.append(each.window)

    with app.testing(start=NOON) as kit:
        await kit.advance("4h")
        view = await app.fanouts.get("etl", "rates")
        await app.fanouts.edit("etl", "rates", every="0s")
        await kit.advance("1h")

    assert view is not None
    assert (view.every, view.rhythm) == (2 * HOUR, "0 * * * *")
    assert seen == [NOON + HOUR, NOON + 3 * HOUR, NOON + 5 * HOUR]


async def test_one_planner_serves_several_works_by_what_it_is_told(app: Mainspring, kit: Testing) -> None:
    told: list[tuple[str, str | None]] = []

    def shards(topic: str, *, work: str | None, ctx: Context) -> list[str]:
        told.append((topic, work))
        return [f"{work}-{ctx.scheduled_for:%H}"]

    for work in ("payments", "refunds"):
        app.fanout("etl", work, every="1h")(shards)
        await app.fanouts.run("etl", work)
    cursors = [each.shard for work in ("payments", "refunds") for each in await app.fanouts.cursors("etl", work)]

    assert told == [("etl", "payments"), ("etl", "refunds")]
    assert cursors == [f"payments-{kit.now:%H}", f"refunds-{kit.now:%H}"]


async def test_a_shard_that_is_named_twice_gets_one_slice(app: Mainspring, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinator, "CHUNK", 2)
    etl = Etl(app, shards=("a", "a", "b", "a", "c", "b"))

    with app.testing(start=NOON) as kit:
        await kit.advance("1h")

    assert [shard for shard, _, _ in etl.told()] == ["a", "b", "c"]


async def test_a_planner_that_fails_half_way_goes_on_in_the_same_window(
    app: Mainspring, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coordinator, "CHUNK", 2)
    attempts: list[int] = []
    seen: list[Slice] = []

    @app.fanout("etl", "payments", cron="0 13 * * *", jitter="0s")
    async def tenants(ctx: Context) -> AsyncIterator[str]:
        attempts.append(ctx.attempt)
        for number, shard in enumerate("abcd"):
            if number == 3 and ctx.attempt == 1:
                raise OSError("away")
            yield shard

    @tenants.slices()
    async def load(each: Slice) -> None:
        seen.append(each)

    with app.testing(start=NOON) as kit:
        await kit.advance("2h")
        outputs = [each.output for each in await app.schedules.runs(tenants.schedule) if each.status == "done"]

    assert attempts == [1, 2]
    assert [(each.shard, each.window) for each in seen] == [(shard, NOON + HOUR) for shard in "abcd"]
    assert outputs == ["2 slices; skipped: 2 planned"]


async def test_a_planner_is_asked_for_a_chunk_at_a_time(app: Mainspring, kit: Testing) -> None:
    asked: list[int] = []

    @app.fanout("etl", "many", every="1h")
    async def shards() -> AsyncIterator[str]:
        for n in range(3 * coordinator.CHUNK + 1):
            if n % coordinator.CHUNK == 0:
                tallies = await app.fanouts.list()
                asked.append(next((each.shards for each in tallies if each.work == "many"), 0))
            yield f"shard-{n}"

    @shards.slices()
    async def handle(each: Slice) -> None: ...

    planned = await app.fanouts.run("etl", "many")

    assert planned.published == 3 * coordinator.CHUNK + 1
    assert asked == [n * coordinator.CHUNK for n in range(4)]
    assert len(kit.pending) == planned.published


async def test_a_planner_may_name_works_and_be_asked_for_one_of_them(app: Mainspring, kit: Testing) -> None:
    seen: list[tuple[str, str]] = []

    @app.fanout("reports", cron="0 2 * * *")
    async def reports(ctx: Context) -> list[tuple[str, str]]:
        assert ctx.scheduled_for == kit.now
        return [("a", "daily"), ("a", "weekly"), ("b", "daily")]

    @reports.slices("daily", "weekly")
    def write(each: Slice) -> None:
        seen.append((each.work, each.shard))

    daily = await app.fanouts.run("reports", "daily")
    everything = await app.fanouts.run("reports")
    await kit.drain()

    assert (daily.published, daily.skipped) == (2, {})
    assert (everything.published, everything.skipped) == (1, {"planned": 2})
    assert sorted(seen) == [("daily", "a"), ("daily", "b"), ("weekly", "a")]
    view = await app.fanouts.get("reports")
    assert view is not None
    assert view.completed == 3
    works = [(each.topic, each.work, each.schedule, each.completed) for each in await app.fanouts.list()]
    assert works == [("reports", "daily", "plan:reports", 2), ("reports", "weekly", "plan:reports", 1)]


async def test_one_shard_is_run_by_hand_however_short_ago_its_last_window_was(app: Mainspring) -> None:
    etl = Etl(app, jitter="1h")
    with app.testing(start=NOON) as kit:
        await app.fanouts.edit("etl", "payments", every="1d")
        await app.fanouts.run("etl", "payments")
        await kit.drain()
        kit.elapse("1m")
        all_of_it = await app.fanouts.run("etl", "payments")
        one = await app.fanouts.run("etl", "payments", "b")
        await kit.drain()

    assert (all_of_it.published, all_of_it.skipped) == (0, {"early": 3})
    assert (one.published, one.window, str(one)) == (1, NOON + timedelta(minutes=1), "1 slice")
    assert etl.told()[1:3] == [("b", NOON, None), ("b", NOON + timedelta(minutes=1), NOON)]


async def test_what_is_not_there_is_refused_with_what_is(app: Mainspring, kit: Testing) -> None:
    Etl(app)

    with pytest.raises(errors.BadOption, match=r"no planner here .* 'etl paymnts'. Did you mean 'etl payments'\?"):
        await app.fanouts.run("etl", "paymnts")
    with pytest.raises(errors.BadOption, match=r"there is no fan-out 'et payments'. Did you mean 'etl payments'\?"):
        await app.fanouts.edit("et", "payments", enabled=False)
    assert await app.fanouts.get("et", "payments") is None
    with pytest.raises(errors.BadOption, match="yields no shard 'd'"):
        await app.fanouts.run("etl", "payments", "d")
    with pytest.raises(errors.BadOption, match="nothing to set: give every="):
        await app.fanouts.edit("etl", "payments")
    with pytest.raises(errors.BadOption, match="jitter='soon'"):
        await app.fanouts.edit("etl", "payments", jitter="soon")
    assert not kit.pending


async def test_what_a_planner_may_not_name_fails_its_run_and_says_what_to_yield(app: Mainspring, kit: Testing) -> None:
    named: list[object] = []

    @app.fanout("etl", every="1h")
    def shards() -> Iterator[object]:
        yield from named

    @app.fanout("one", "work", every="1h")
    def others() -> Iterator[object]:
        yield from named

    async def refusal(topic: str, what: object) -> str:
        named[:] = [what]
        with pytest.raises(errors.BadOption) as refused:
            await app.fanouts.run(topic)
        return str(refused.value)

    assert "yields 'a' without a work: yield (shard, work), or add it to" in await refusal("etl", "a")
    assert "yields 7: yield a shard as text, or (shard, work)" in await refusal("etl", 7)
    assert "work='a:b' has a ':'" in await refusal("etl", ("shard", "a:b"))
    assert "shard must be 1 to 200 characters, not 0" in await refusal("etl", ("", "work"))
    assert "remove the work from @app.fanout('one', …)" in await refusal_of_work(app, named)
    assert not kit.pending


async def refusal_of_work(app: Mainspring, named: list[object]) -> str:
    named[:] = [("a", "other")]
    with pytest.raises(errors.BadOption) as refused:
        await app.fanouts.run("one", "work")
    return str(refused.value)


def test_blocking_code_has_the_same(app: Mainspring) -> None:
    etl = Etl(app)
    with app.testing(start=NOON) as kit:
        planned = app.sync.fanouts.run("etl", "payments")
        kit.sync.drain()
        view = app.sync.fanouts.get("etl", "payments")
        assert view is not None
        policy = app.sync.fanouts.edit("etl", "payments", "a", enabled=False)
        again = app.sync.fanouts.run("etl", "payments", wait="1s", by="ann")
        audit = app.sync.audit(limit=3)
        listed = app.sync.fanouts.list()
        policies = app.sync.fanouts.policies("etl", "payments")
        reset = app.sync.fanouts.reset("etl", "payments", "a")
        first = app.sync.fanouts.cursors("etl", "payments", limit=1)
        cursors = app.sync.fanouts.cursors("etl", "payments", cursor=first.cursor, limit=1)

    assert (planned.published, again.skipped) == (3, {"disabled": 1, "planned": 2})
    assert [(each.by, each.action, each.subject) for each in audit] == [
        ("ann", "fanout run", "etl|payments"),
        ("app", "fanout edit", "etl|payments|a"),
        ("app", "fanout run", "etl|payments"),
    ]
    assert (view.completed, [each.work for each in listed]) == (3, ["payments"])
    assert [(each.shard, each.policy, each.edited_by) for each in policies] == [("a", policy, "app")]
    assert (reset, [each.shard for each in cursors]) == (True, ["b"])
    assert len(etl.done) == 3
