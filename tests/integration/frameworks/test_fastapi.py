"""FastAPI and Starlette, through their own lifespans and requests."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

import pytest
from fastapi import Depends, FastAPI
from fastapi.testclient import TestClient
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import Session
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from mainspring import Mainspring, Receipt
from mainspring.integrations.fastapi import lifespan, within
from mainspring.model.errors import BadOption, NotOpen

Publish = Callable[..., Awaitable[Receipt]]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "shop.db"


@pytest.fixture
def spring(file: Path) -> Mainspring:
    return Mainspring(f"sqlite:///{file}", name="shop")


def _stored(file: Path) -> int:
    with sqlite3.connect(file) as connection:
        (count,) = connection.execute("SELECT count(*) FROM mainspring_message").fetchone()
    connection.close()
    return int(count)


def test_the_app_is_open_while_a_fastapi_application_runs(spring: Mainspring, file: Path) -> None:
    web = FastAPI(lifespan=lifespan(spring))

    @web.post("/orders")
    async def place() -> str:
        return (await spring.publish("orders.placed", {"order_id": 1})).status

    with TestClient(web) as client:
        answer = client.post("/orders").json()

    assert answer == "stored"
    assert _stored(file) == 1
    with pytest.raises(NotOpen):
        TestClient(web).post("/orders")  # without its lifespan


def test_a_starlette_application_finds_the_app_in_its_state(spring: Mainspring, file: Path) -> None:
    async def place(request: Request) -> JSONResponse:
        receipt = await request.app.state.mainspring.publish("orders.placed", {"order_id": 1})
        return JSONResponse(receipt.status)

    web = Starlette(routes=[Route("/orders", place, methods=["POST"])], lifespan=lifespan(spring))

    with TestClient(web) as client:
        answer = client.post("/orders").json()

    assert answer == "stored"
    assert _stored(file) == 1


def test_with_a_worker_the_same_process_consumes(spring: Mainspring) -> None:
    handled: list[int] = []
    done = asyncio.Event()

    @spring.consumer("orders.placed")
    async def ship(order: dict[str, int]) -> None:
        handled.append(order["order_id"])
        done.set()

    web = FastAPI(lifespan=lifespan(spring, worker=True))

    @web.post("/orders")
    async def place() -> None:
        await spring.publish("orders.placed", {"order_id": 7})
        async with asyncio.timeout(60):
            await done.wait()

    with TestClient(web) as client:
        assert client.post("/orders").status_code == 200

    assert handled == [7]


def test_a_worker_may_serve_some_groups_only(spring: Mainspring) -> None:
    handled: list[str] = []
    done = asyncio.Event()

    @spring.consumer("orders.placed")
    async def ship(order: dict[str, int]) -> None:
        handled.append("ship")

    @spring.consumer("orders.placed")
    async def count(order: dict[str, int]) -> None:
        handled.append("count")
        done.set()

    web = FastAPI(lifespan=lifespan(spring, worker=True, groups=["count"]))

    @web.post("/orders")
    async def place() -> int:
        await spring.declare()
        await spring.publish("orders.placed", {"order_id": 7})
        async with asyncio.timeout(60):
            await done.wait()
        return next(each.ready for each in (await spring.stats.tally()).groups if each.group == "ship")

    with TestClient(web) as client:
        waiting = client.post("/orders").json()

    assert (handled, waiting) == (["count"], 1)


def test_groups_without_a_worker_are_a_mistake(spring: Mainspring) -> None:
    with pytest.raises(BadOption, match="worker=True, groups="):
        lifespan(spring, groups=["count"])


def test_a_lifespan_of_ones_own_runs_inside_the_open_app(spring: Mainspring, file: Path) -> None:
    seen: list[str] = []

    @asynccontextmanager
    async def own(web: Any) -> AsyncIterator[dict[str, str]]:
        assert web is application
        seen.append((await spring.publish("shop.opened", {})).status)
        yield {"greeting": "welcome"}
        seen.append((await spring.publish("shop.closed", {})).status)

    application = FastAPI(lifespan=lifespan(spring, then=own))

    @application.get("/")
    async def greet(request: Request) -> str:
        greeting: str = request.state.greeting
        return greeting

    with TestClient(application) as client:
        answer = client.get("/").json()

    assert answer == "welcome"
    assert seen == ["stored", "stored"]
    assert _stored(file) == 2


@pytest.mark.parametrize(("fails", "status", "stored"), [(False, 200, 1), (True, 500, 0)])
def test_a_route_publishes_in_the_transaction_of_its_own_session(
    spring: Mainspring, file: Path, fails: bool, status: int, stored: int
) -> None:
    engine = create_async_engine(f"sqlite+aiosqlite:///{file}")
    sessions = async_sessionmaker(engine)
    opened: list[AsyncSession] = []

    async def get_session() -> AsyncIterator[AsyncSession]:
        async with sessions() as session:
            opened.append(session)
            yield session

    @asynccontextmanager
    async def own(_: Any) -> AsyncIterator[None]:
        async with engine.begin() as connection:
            await connection.execute(text("CREATE TABLE orders (id integer)"))
        yield
        await engine.dispose()

    web = FastAPI(lifespan=lifespan(spring, then=own))

    @web.post("/orders")
    async def place(
        session: Annotated[AsyncSession, Depends(get_session)],
        publish: Annotated[Publish, Depends(within(spring.publish, get_session))],
    ) -> None:
        async with session.begin():
            await session.execute(text("INSERT INTO orders VALUES (1)"))
            await publish("orders.placed", {"order_id": 1})
            if fails:
                raise RuntimeError("changed their mind")

    with TestClient(web, raise_server_exceptions=False) as client:
        answer = client.post("/orders")

    assert answer.status_code == status
    assert len(opened) == 1  # one session: the route's and the publisher's are the same
    assert _stored(file) == stored


def test_a_route_that_blocks_publishes_in_its_blocking_session(spring: Mainspring, file: Path) -> None:
    engine = create_engine(f"sqlite:///{file}")
    opened: list[Session] = []

    def get_session() -> Iterator[Session]:
        with Session(engine) as session:
            opened.append(session)
            yield session

    # Its end comes before the answer is sent: who asks for a session with options hands them on.
    asked = Depends(get_session, scope="function")
    web = FastAPI(lifespan=lifespan(spring))

    @web.post("/orders")
    def place(
        session: Annotated[Session, asked],
        publish: Annotated[Callable[..., Receipt], Depends(within(spring.sync.publish, asked), scope="function")],
    ) -> str:
        with session.begin():
            return publish("orders.placed", {"order_id": 1}).status

    with TestClient(web) as client:
        answer = client.post("/orders").json()
    engine.dispose()

    assert answer == "stored"
    assert len(opened) == 1
    assert _stored(file) == 1
