"""`app.joins`: what is open, whom it waits for, and how it is cancelled."""

import asyncio
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from mainspring import Cancelled, JoinOutcome
from mainspring.model.errors import BadOption
from mainspring.model.join import Follower
from tests.integration.app.albums import Album


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def album(request: pytest.FixtureRequest, tmp_path: Path, postgres_url: str, postgres_schema: str) -> Any:
    urls = {"memory": "memory://", "sqlite": f"sqlite:///{tmp_path}/photos.db", "postgresql": postgres_url}
    return lambda **options: Album(urls[request.param], postgres_schema, **options)


async def test_open_joins_are_listed_with_names_as_the_user_wrote_them(album: Any) -> None:
    ours, others = album(namespace="ours"), album(namespace="theirs")
    async with ours.app, others.app:
        await others.app.join([(others.resize, 1)], then=others.finish)
        joined = await ours.app.join(
            [(ours.resize, 1), (ours.shrink, 2)],
            then=ours.finish,
            failed=ours.apologise,
            key="june",
            correlation_id="c",
        )
        await others.app.join([(others.resize, 1)], then=others.finish)

        (view,) = await ours.app.joins.list(limit=1)

        assert await ours.app.joins.list() == [view]
        assert await ours.app.joins.get(joined) == await ours.app.joins.get(str(joined.id)) == view
        members = await ours.app.joins.members(joined)
        assert await others.app.joins.get(joined) is None
    assert (view.id, view.members, view.ended, view.failed) == (joined.id, 2, 0, 0)
    assert (view.then, view.otherwise) == (Follower("finish", "finish"), Follower("apologise", "apologise"))
    assert (view.key, view.correlation_id) == ("june", "c")
    assert view.oldest == members[0]
    assert [(each.message_id, each.group, each.topic) for each in members] == [
        (joined.members[0], "resize", "resize"),
        (joined.members[1], "shrink", "shrink"),
    ]


async def test_pages_follow_each_other_past_the_joins_of_others(album: Any) -> None:
    photos, others = album(), album(namespace="theirs")
    async with photos.app, others.app:
        opened: list[UUID] = []
        for number in range(3):
            opened.append((await photos.app.join([(photos.resize, number)], then=photos.finish)).id)
            await others.app.join([(others.resize, number)], then=others.finish)

        first = await photos.app.joins.list(limit=2)
        second = await photos.app.joins.list(cursor=first.cursor, limit=2)

    assert [each.id for each in (*first, *second)] == sorted(opened)


async def test_a_chain_is_an_open_join_of_one(album: Any) -> None:
    photos: Album = album()
    async with photos.app:
        sent = await photos.resize.send(1, delay="1h", then=photos.finish)

        (view,) = await photos.app.joins.list()

    assert (view.members, view.then, view.otherwise) == (1, Follower("finish", "finish"), None)
    assert view.correlation_id == str(sent.id)
    assert view.oldest is not None
    assert (view.oldest.message_id, view.oldest.state) == (sent.id, "scheduled")


async def test_cancelling_a_join_cancels_its_members_and_failed_follows(album: Any) -> None:
    photos: Album = album()
    async with photos.app:
        joined = await photos.app.join(
            [(photos.resize, number) for number in range(3)], then=photos.finish, failed=photos.apologise
        )
        other = await photos.app.join([(photos.resize, 1)], then=photos.finish)
        await photos.app.cancel(joined.members[1])

        assert await photos.app.joins.cancel(joined, reason="obsolete") == Cancelled(2, 0)
        assert await photos.app.joins.cancel(joined) == Cancelled(0, 0)
        assert len(await photos.app.joins.members(other)) == 1

        cancelled = await photos.app.messages.list("cancelled")
        assert sorted(each.error or "" for each in cancelled) == [
            "cancelled by the application",
            "obsolete",
            "obsolete",
        ]
    async with photos.app.worker():
        told = dict(await photos.seen.count(2))
    assert told["apologise"] == JoinOutcome(joined.id, done=0, failed=3)


async def test_who_names_something_else_is_told_what_it_is(album: Any) -> None:
    photos: Album = album()
    async with photos.app.worker():
        joined = await photos.app.join([(photos.resize, 1)], then=photos.finish)
        await photos.seen.count(1)
    async with photos.app:
        waiting = await photos.app.join([(photos.resize, 1)], then=photos.finish)
        plain = await photos.app.publish("resize", 1)
        nothing = uuid4()

        async def complaint(which: Any) -> str:
            with pytest.raises(BadOption) as raised:
                await photos.app.joins.members(which)
            with pytest.raises(BadOption, match="join"):
                await photos.app.joins.cancel(which)
            return str(raised.value)

        over = f"the join {joined.id} is over: what followed is the message {joined.follows}"
        assert await complaint(joined) == await complaint(joined.follows) == over
        assert f"but a member of the join {waiting.id}: give that id" in await complaint(waiting.members[0])
        assert await complaint(plain.id) == f"{plain.id} is no join, but a message on the topic resize"
        assert await complaint(nothing) == f"there is no open join {nothing}: it never was, or is over"
        assert "pass what app.join(…) answered" in await complaint("42")
        assert await photos.app.joins.get(joined) is None


async def test_blocking_code_has_the_same(album: Any) -> None:
    photos: Album = album()

    def call() -> Cancelled:
        joins = photos.app.sync.joins
        joined = photos.app.sync.join([(photos.resize, 1)], then=photos.finish)
        try:
            (view,) = joins.list()
            assert joins.get(joined) == view
            assert [each.message_id for each in joins.members(joined)] == list(joined.members)
            return joins.cancel(joined)
        finally:
            photos.app.sync.close()

    assert await asyncio.to_thread(call) == Cancelled(1, 0)


async def test_a_kit_shows_the_joins_of_the_test(album: Any) -> None:
    photos: Album = album()
    with photos.app.testing() as kit:
        joined = await photos.app.join([(photos.resize, 1)], then=photos.finish)
        (view,) = await photos.app.joins.list()
        await kit.drain()

        assert view.id == joined.id
        assert await photos.app.joins.list() == []
