"""Whatever gives the transaction: effect, messages and verdict are committed as one, or not at all (invariant 3)."""

from mainspring import Bury, Cancel, Context, Done, Retry, Snooze
from tests.integration.transactional.acting import Ends, consume, heard_by, rob, settle_elsewhere, until
from tests.integration.transactional.conftest import Place
from tests.integration.transactional.ways import Way


async def test_effects_messages_and_verdicts_are_committed_together(way: Way, given: object, place: Place) -> None:
    app = place.app(way)
    heard = heard_by(app)

    def fail_first(n: int, ctx: Context) -> object:
        if n % 2 and ctx.attempt == 1:
            raise RuntimeError("not yet")  # were its effect there, the next attempt would fail on the primary key
        return Done(f"paid {n}")

    consume(app, way, given, fail_first, keep="all")
    async with app.worker():
        await app.publish_many([("deposit", n) for n in range(6)])
        await until(lambda: len(heard) == 6)

    assert place.effects() == sorted(heard) == [0, 1, 2, 3, 4, 5]
    runs = place.rows("SELECT status, output FROM {}run WHERE group_name = 'deposit'")
    assert sorted((row[0], row[1] or "") for row in runs) == [
        *(("done", f"paid {n}") for n in range(6)),
        *[("failed", "")] * 3,
    ]
    assert place.rows("SELECT count(*) FROM {}delivery")[0][0] == 0


async def test_who_gives_up_leaves_no_effect(way: Way, given: object, place: Place) -> None:
    app = place.app(way)
    heard = heard_by(app)

    def fail(_n: int, _ctx: Context) -> object:
        raise RuntimeError("never")

    consume(app, way, given, fail)
    async with app.worker():
        await app.publish("deposit", 1)
        await until(lambda: place.rows("SELECT count(*) FROM {}dead")[0][0] == 1)

    assert (place.effects(), heard) == ([], [])
    assert place.rows("SELECT attempt FROM {}dead")[0][0] == 3


async def test_a_returned_retry_or_bury_leaves_no_effect(way: Way, given: object, place: Place) -> None:
    app = place.app(way)
    heard = heard_by(app)

    def think(n: int, _ctx: Context) -> object:
        return Retry("1h", "busy") if n == 1 else Bury("unknown")

    consume(app, way, given, think)
    async with app.worker():
        await app.publish_many([("deposit", 1), ("deposit", 2)])
        await until(lambda: place.rows("SELECT count(*) FROM {}dead")[0][0] == 1)
        await until(lambda: place.rows("SELECT count(*) FROM {}delivery WHERE attempt = 1")[0][0] == 1)

    assert (place.effects(), heard) == ([], [])


async def test_a_snooze_and_a_cancel_are_committed_with_what_was_written(way: Way, given: object, place: Place) -> None:
    app = place.app(way)
    heard = heard_by(app)

    def think(n: int, _ctx: Context) -> object:
        return Snooze("1h") if n == 1 else Cancel("not needed")

    consume(app, way, given, think)
    async with app.worker():
        await app.publish_many([("deposit", 1), ("deposit", 2)])
        await until(lambda: len(heard) == 2)

    assert place.effects() == sorted(heard) == [1, 2]
    assert tuple(place.rows("SELECT held_by, attempt FROM {}delivery")[0]) == (None, 0)
    assert [row[0] for row in place.rows("SELECT status FROM {}run WHERE group_name = 'deposit'")] == ["cancelled"]


async def test_who_has_lost_its_claim_is_undone(way: Way, given: object, place: Place) -> None:
    app = place.app(way)
    heard, ends, fences = heard_by(app), Ends(), list[int]()

    def lose(_n: int, ctx: Context) -> object:
        fences.append(ctx.fence)
        rob(place)
        return None

    consume(app, way, given, before=lose, middleware=[ends])
    async with app.worker():
        await app.publish("deposit", 7)
        await until(lambda: ends.count == 1)

    assert (place.effects(), heard) == ([], [])
    ((epoch, holder),) = place.rows("SELECT epoch, held_by FROM {}delivery")
    assert (epoch, holder) == (fences[0] + 1, "a robber")


async def test_who_finds_its_message_settled_by_another_is_undone(way: Way, given: object, place: Place) -> None:
    app = place.app(way)
    heard, ends = heard_by(app), Ends()

    def be_overtaken(_n: int, _ctx: Context) -> object:
        settle_elsewhere(place)
        return None

    consume(app, way, given, before=be_overtaken, middleware=[ends])
    async with app.worker():
        await app.publish("deposit", 7)
        await until(lambda: ends.count == 1)

    assert (place.effects(), heard) == ([], [])
    assert place.rows("SELECT count(*) FROM {}delivery")[0][0] == 0
    assert place.rows("SELECT count(*) FROM {}run")[0][0] == 0
