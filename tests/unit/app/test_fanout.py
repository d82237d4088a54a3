"""Registering fan-outs: whatever cannot be meant is told where it is written."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from mainspring import NO_RETRY, Context, Mainspring, Middleware, Slice, Snooze, errors
from mainspring.app.consume.middleware import Next

SECOND = timedelta(seconds=1)


@pytest.fixture
def app() -> Mainspring:
    return Mainspring("memory://", name="shop")


def shards() -> Iterator[str]:
    yield "a"


@pytest.mark.parametrize(
    ("topic", "options", "said"),
    [
        ("etl", {}, "cron='0 2 * * *', every='15m' or both: neither was given"),
        ("etl", {"cron": "0 2 * * *", "every": "soon"}, "every='soon' is not a duration"),
        ("etl", {"every": "1ms"}, "every='1ms': every('1ms') is too often"),
        ("etl", {"every": "soon"}, "every='soon' is not a duration"),
        ("etl", {"every": "1h", "jiter": "1s"}, "has no option 'jiter'. Did you mean 'jitter'?"),
        ("etl", {"every": "1h", "jitter": "soon"}, "jitter='soon' is not a duration"),
        ("etl", {"every": "1h", "lease": "1ms"}, "lease='1ms' is out of bounds: it must be at least 1s"),
        ("e:tl", {"every": "1h"}, "topic='e:tl' has a ':', which separates topic, work and shard"),
        ("e|tl", {"every": "1h"}, "topic='e|tl' has a '|'"),
        ("e tl", {"every": "1h"}, "topic 'e tl' has white space"),
        ("etl.*", {"every": "1h"}, "topic 'etl.*' has a wildcard"),
        ("x" * 81, {"every": "1h"}, "has 81 characters: use at most 80"),
        (7, {"every": "1h"}, "topic=7 must be text"),
        ("etl", {"every": "1h", "work_key": "a/b"}, "work_key 'a/b' has a '/'"),
        (shards, {}, "@app.fanout has no parentheses"),
    ],
)
def test_what_cannot_be_meant_is_refused(app: Mainspring, topic: Any, options: Any, said: str) -> None:
    with pytest.raises(errors.BadOption) as refused:
        app.fanout(topic, **options)

    assert said in str(refused.value)


def test_a_bad_expression_is_refused_where_the_planner_is_registered(app: Mainspring) -> None:
    with pytest.raises(ValueError, match="61"):
        app.fanout("etl", "payments", cron="61 * * * *")(shards)


async def test_slices_are_by_default_spread_over_half_a_window_at_most(app: Mainspring) -> None:
    app.fanout("etl", "often", every="10s")(shards)
    app.fanout("etl", "seldom", every="15m")(shards)
    app.fanout("etl", "wished", every="10s", jitter="1h")(shards)

    async with app:
        found = {each.work: each.jitter for each in await app.fanouts.list()}

    assert found == {"often": 5 * SECOND, "seldom": 60 * SECOND, "wished": 3600 * SECOND}


def test_a_planner_takes_nothing_or_its_context_topic_and_work(app: Mainspring) -> None:
    def with_context(context: Context) -> list[str]:
        return [context.topic]

    def with_default(page: int = 100) -> list[str]:
        return [str(page)]

    def with_two(ctx: Context, again: Context) -> list[str]:
        return [ctx.topic, again.topic]

    def with_payload(slice: Slice) -> list[str]:
        return [slice.shard]

    app.fanout("one", "work", every="1h")(with_context)
    app.fanout("two", "work", every="1h")(with_default)
    with pytest.raises(errors.BadSignature, match=r"takes nothing, or some of `ctx`, `topic: str` and `work: str"):
        app.fanout("three", "work", every="1h")(with_payload)
    with pytest.raises(errors.BadSignature, match="takes nothing, or some of"):
        app.fanout("three", "work", every="1h")(with_two)
    with pytest.raises(errors.BadSignature, match="goes above a function"):
        app.fanout("four", "work", every="1h")("tenants")  # type: ignore[arg-type]


def test_every_work_has_one_planner(app: Mainspring) -> None:
    app.fanout("etl", "payments", every="1h")(shards)
    app.fanout("etl", "refunds", every="1h")(lambda: ["a"])

    with pytest.raises(errors.Conflict, match=r"etl payments is planned by .*\.shards already: give this one another"):
        app.fanout("etl", "payments", every="1h")(lambda: ["b"])
    with pytest.raises(errors.Conflict, match="one planner of 'etl' yields its own works"):
        app.fanout("etl", every="1h")(lambda: [("b", "other")])


def test_every_work_has_one_consumer_of_its_slices(app: Mainspring) -> None:
    tenants = app.fanout("etl", "payments", every="1h")(shards)

    @tenants.slices(group="loading", concurrency=3)
    async def load(each: Slice) -> None: ...

    @app.consumer("fanout:etl:payments")
    async def watch(each: dict[str, Any]) -> None: ...

    with pytest.raises(errors.Conflict, match=r"slices of etl:payments already go to .*load"):

        @tenants.slices()
        async def again(each: Slice) -> None: ...

    assert (load.group, load.topics) == ("loading", ("fanout:etl:payments",))
    assert tenants.slices(group="loading", concurrency=3)(load.function).group == "loading"
    assert (tenants.topic, tenants.schedule) == ("etl", "plan:etl:payments")
    assert repr(tenants).startswith("<fan-out etl payments, planned by ")


def test_a_consumer_of_slices_says_which_works_it_does_where_the_planner_names_them(app: Mainspring) -> None:
    named = app.fanout("reports", every="1h")(lambda: [("a", "daily")])
    one = app.fanout("etl", "payments", every="1h")(shards)

    with pytest.raises(errors.BadOption, match=r"name those of this consumer, as in @.*slices\('payments', 'ref"):
        named.slices()
    with pytest.raises(errors.BadOption, match="work 'a b' has white space"):
        named.slices("a b")
    with pytest.raises(errors.BadOption, match=r"etl payments has one work, 'payments': write @shards\.slices\(\)"):
        one.slices("refunds")
    with pytest.raises(errors.BadOption, match=r"@shards\.slices\(…\) has no option 'gruop'. Did you mean 'group'\?"):
        one.slices(gruop="x")  # type: ignore[call-arg]
    with pytest.raises(errors.BadOption, match="has batch=, and the slices of a fan-out are taken one at a time"):

        @one.slices(batch=10)
        async def many(parts: list[Slice]) -> None: ...

    with pytest.raises(errors.BadOption, match="has no parentheses"):
        one.slices(shards)  # type: ignore[arg-type]


def test_a_module_that_is_loaded_anew_brings_its_planner_anew(app: Mainspring) -> None:
    source = "def tenants():\n    return ['{}']\n"
    for shard in ("a", "b"):
        world: dict[str, Any] = {"__name__": "cell"}
        exec(source.format(shard), world)
        app.fanout("etl", "payments", every="1h")(world["tenants"])

    found = app._code.registry.fanouts.find("etl", "payments")
    assert found is not None
    assert found.planner() == ["b"]


class Committing(Middleware):
    """Commits what handlers have written, and fails at it."""

    async def handling(self, ctx: Context, call_next: Next) -> object:
        await call_next()
        raise OSError(f"{ctx.key} is not committed")


async def test_a_middleware_that_fails_after_the_handler_keeps_the_cursor_where_it_is() -> None:
    app = Mainspring("memory://", name="shop", middleware=[Committing()])
    planner = app.fanout("etl", "payments", cron="0 0 1 1 *")(shards)

    @planner.slices(retry=NO_RETRY)
    async def load(each: Slice) -> None: ...

    with app.testing() as kit:
        planned = await app.fanouts.run("etl", "payments")
        with kit.expect_dead(load):
            await kit.drain()
        [cursor] = await app.fanouts.cursors("etl", "payments")

    assert (cursor.planned, cursor.completed) == (planned.window, None)


async def test_a_shard_whose_slice_is_dead_is_planned_again_whoever_else_looks_on(app: Mainspring) -> None:
    planner = app.fanout("etl", "payments", cron="0 0 1 1 *")(shards)

    @planner.slices(retry=NO_RETRY)
    async def load(each: Slice) -> None:
        raise OSError(f"{each.shard} is away")

    @app.consumer("fanout:etl:payments")
    async def onlooker(each: Slice) -> Snooze:
        return Snooze("30d", each.shard)

    with app.testing() as kit, kit.expect_dead(load):
        await app.fanouts.run("etl", "payments")
        await kit.advance("1h")
        again = await app.fanouts.run("etl", "payments")
        await kit.drain()

    assert (again.published, again.skipped) == (1, {})
