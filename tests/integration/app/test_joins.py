"""Joins on every database: with a worker, in the caller's transaction, and in a kit on the caller's connection."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import NullPool, create_engine
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from mainspring import JoinOutcome, Middleware, Outgoing
from tests.integration.app.albums import Album
from tests.integration.app.shop import eventually


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def album(request: pytest.FixtureRequest, tmp_path: Path, postgres_url: str, postgres_schema: str) -> Any:
    urls = {"memory": "memory://", "sqlite": f"sqlite:///{tmp_path}/photos.db", "postgresql": postgres_url}
    return lambda **options: Album(urls[request.param], postgres_schema, **options)


async def test_a_worker_runs_what_follows_as_soon_as_the_members_have_ended(album: Any) -> None:
    photos: Album = album()
    async with photos.app.worker():
        members = [(photos.resize, 1), (photos.shrink, 2), (photos.resize, 3)]

        joined = await photos.app.join(members, then=(photos.finish, "June"), failed=photos.apologise)

        assert await photos.seen.count(1) == [("finish June", JoinOutcome(joined.id, done=3, failed=0))]


async def test_one_failure_has_the_other_consumer_follow(album: Any) -> None:
    photos: Album = album()
    async with photos.app.worker():
        members = [(photos.resize, number) for number in (1, -1, 2)]

        joined = await photos.app.join(members, then=photos.finish, failed=photos.apologise)

        assert await photos.seen.count(1) == [("apologise", JoinOutcome(joined.id, done=2, failed=1))]


async def test_a_member_that_is_cancelled_ends_at_once(album: Any) -> None:
    photos: Album = album()
    async with photos.app.worker():
        await photos.resize.send(1, then=photos.finish)
        await photos.seen.count(1)
        sent = await photos.resize.send(1, delay="1h", then=photos.finish, failed=photos.apologise)

        await photos.app.cancel(sent)

        assert [name for name, _ in await photos.seen.count(2)] == ["finish None", "apologise"]


async def test_a_chain_is_a_join_of_one(album: Any) -> None:
    photos: Album = album()
    async with photos.app.worker():
        await photos.resize.send(1, then=photos.finish)
        await photos.resize.send(-1, then=photos.finish, failed=photos.apologise)
        told = await photos.seen.count(2)
        # In blocking code, on the loop of the background.
        await asyncio.to_thread(photos.resize.sync.send, 2, then=(photos.finish, "blocking"))
        await photos.seen.count(3)

    assert sorted(name for name, _ in told) == ["apologise", "finish None"]
    assert photos.seen.items[2][0] == "finish blocking"


async def test_many_joins_at_once_each_have_their_own_end(album: Any) -> None:
    photos: Album = album()
    async with photos.app.worker():
        joins = [
            photos.app.join([(photos.resize, number) for number in range(7)], then=(photos.finish, str(place)))
            for place in range(20)
        ]
        opened = await asyncio.gather(*joins)

        told = await photos.seen.count(20)

    assert sorted(told, key=repr) == sorted(
        [(f"finish {place}", JoinOutcome(each.id, done=7, failed=0)) for place, each in enumerate(opened)], key=repr
    )


async def test_middleware_sees_the_members_and_what_follows_and_cannot_lose_the_join(album: Any) -> None:
    class Erase(Middleware):
        def publishing(self, message: Outgoing) -> Any:
            topics.append(message.topic)
            message.headers.clear()
            message.headers["tenant"] = "a"
            return super().publishing(message)

    topics: list[str] = []
    photos: Album = album(middleware=[Erase()])
    async with photos.app.worker():
        joined = await photos.app.join([(photos.resize, 1)], then=photos.finish, failed=photos.apologise)
        await photos.seen.count(1)
        found = await photos.app.messages.get(joined.follows)

    assert topics == ["resize", "finish", "apologise"]
    assert found is not None
    assert found.headers["tenant"] == "a"


@pytest.fixture(params=["sqlite", "postgresql"])
def stored(request: pytest.FixtureRequest, tmp_path: Path, postgres_url: str, postgres_schema: str) -> tuple[str, str]:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/photos.db", "mainspring"
    return postgres_url, postgres_schema


def spelled(url: str, driver: str) -> str:
    return url.replace("://", f"+{driver}://", 1) if driver else url


@pytest.mark.parametrize("way", ["commits", "rolls back"])
async def test_a_join_is_part_of_the_transaction_that_it_joins(stored: tuple[str, str], way: str) -> None:
    photos = Album(*stored)
    async with photos.app:
        engine = create_async_engine(
            spelled(stored[0], "aiosqlite" if stored[0].startswith("sqlite") else "asyncpg"), poolclass=NullPool
        )
        members = [(photos.resize, 1), (photos.resize, 2)]
        async with AsyncSession(engine) as session, session.begin() as transaction:
            await photos.app.join(members, then=photos.finish, tx=session)
            await photos.resize.send(3, then=photos.finish, tx=session)
            if way == "rolls back":
                await transaction.rollback()
        await engine.dispose()
        assert await photos.live() == (["resize"] * 3 if way == "commits" else [])
    async with photos.app.worker():
        if way == "commits":
            told = await photos.seen.count(2)
            assert sorted(outcome.done for _, outcome in told if outcome is not None) == [1, 2]
        else:
            await photos.resize.send(4, then=(photos.finish, "another"))
            assert [name for name, _ in await photos.seen.count(1)] == ["finish another"]


@pytest.mark.parametrize("way", ["commits", "rolls back"])
async def test_a_join_is_part_of_a_blocking_transaction_too(stored: tuple[str, str], way: str) -> None:
    photos = Album(*stored)
    async with photos.app:
        pass

    def call() -> None:
        engine = create_engine(spelled(stored[0], "" if stored[0].startswith("sqlite") else "psycopg"))
        with Session(engine) as session:
            photos.app.sync.join([(photos.resize, 1), (photos.resize, 2)], then=photos.finish, tx=session)
            photos.resize.sync.send(3, then=photos.finish, tx=session)
            session.commit() if way == "commits" else session.rollback()
        engine.dispose()

    await asyncio.to_thread(call)
    async with photos.app.worker():
        wanted = 2 if way == "commits" else 0
        assert len(await photos.seen.count(wanted)) == wanted
        await eventually(lambda: is_empty(photos))


async def is_empty(photos: Album) -> bool:
    return not await photos.live()


@pytest.mark.parametrize("cancelled", [True, False])
async def test_a_kit_on_the_callers_connection_lets_joins_go_on(stored: tuple[str, str], cancelled: bool) -> None:
    photos = Album(*stored)
    async with photos.app:
        pass

    def call() -> list[str]:
        engine = create_engine(
            spelled(stored[0], "" if stored[0].startswith("sqlite") else "psycopg"), poolclass=NullPool
        )
        with Session(engine) as session, photos.app.testing(tx=session) as kit:
            members = [(photos.shrink, 1), (photos.shrink, 2)]
            joined = photos.app.sync.join(members, then=photos.apologise, failed=photos.apologise, tx=session)
            if cancelled:
                photos.app.sync.cancel(joined.members[0], tx=session)
            groups = [ran.group for ran in kit.sync.drain()]
            assert [each.id for each in kit.published("apologise")] == [joined.follows]
            session.rollback()
        return groups

    assert await asyncio.to_thread(call) == (["shrink", "apologise"] if cancelled else ["shrink"] * 2 + ["apologise"])
    async with photos.app:
        assert await photos.live() == []
