"""Flask: the extension, its contexts around handlers, and its commands."""

import asyncio
from pathlib import Path

import pytest
from flask import Flask, current_app, g
from sqlalchemy import create_engine, text
from sqlalchemy.orm import scoped_session, sessionmaker

from mainspring import Mainspring
from mainspring.integrations.flask import FlaskMainspring
from mainspring.model.errors import Misuse


@pytest.fixture
def spring(tmp_path: Path) -> FlaskMainspring:
    return FlaskMainspring(f"sqlite:///{tmp_path / 'shop.db'}", name="shop")


def _application(spring: FlaskMainspring) -> Flask:
    app = Flask("shop")
    app.config["GREETING"] = "welcome"
    spring.init_app(app)
    return app


def test_the_extension_is_where_extensions_are(spring: FlaskMainspring) -> None:
    app = _application(spring)

    assert app.extensions["mainspring"] is spring
    assert isinstance(spring, Mainspring)


def test_an_application_may_be_given_at_once(tmp_path: Path) -> None:
    app = Flask("shop")

    spring = FlaskMainspring("memory://", app=app)

    assert app.extensions["mainspring"] is spring


def test_a_plain_function_and_a_coroutine_have_an_application_context(spring: FlaskMainspring) -> None:
    app = _application(spring)
    greetings: list[str] = []
    torn_down: list[str] = []

    @app.teardown_appcontext
    def tear_down(_: BaseException | None) -> None:
        torn_down.append(g.pop("order", "nothing"))

    @spring.consumer("orders.placed")
    def plain(order: str) -> None:
        assert "order" not in g, "the context of another handler"
        g.order = order
        greetings.append(f"{current_app.config['GREETING']} {order} from a thread")

    @spring.consumer("orders.placed")
    async def coroutine(order: str) -> None:
        assert "order" not in g, "the context of another handler"
        g.order = order
        await asyncio.sleep(0)
        greetings.append(f"{current_app.config['GREETING']} {g.order} from a coroutine")

    with spring.testing() as kit:
        spring.sync.publish("orders.placed", "one")
        spring.sync.publish("orders.placed", "two")
        kit.sync.drain()

    assert sorted(greetings) == [
        "welcome one from a coroutine",
        "welcome one from a thread",
        "welcome two from a coroutine",
        "welcome two from a thread",
    ]
    assert sorted(torn_down) == ["one", "one", "two", "two"]


def test_a_batch_has_one_application_context(spring: FlaskMainspring) -> None:
    app = _application(spring)
    torn_down: list[int] = []

    @app.teardown_appcontext
    def tear_down(_: BaseException | None) -> None:
        torn_down.append(g.pop("orders"))

    @spring.consumer("orders.placed", batch=3)
    def plain(orders: list[str]) -> None:
        g.orders = len(orders)

    @spring.consumer("orders.placed", batch=3)
    async def coroutine(orders: list[str]) -> None:
        g.orders = -len(orders)

    with spring.testing() as kit:
        spring.sync.publish_many([("orders.placed", "one"), ("orders.placed", "two")])
        kit.sync.drain()

    assert sorted(torn_down) == [-2, 2]


async def test_a_session_of_the_handlers_thread_is_removed_in_that_thread(spring: FlaskMainspring) -> None:
    app = _application(spring)
    engine = create_engine("sqlite://")
    db = scoped_session(sessionmaker(engine))
    left: list[bool] = []
    done = asyncio.Event()
    loop = asyncio.get_running_loop()

    @app.teardown_appcontext
    def remove_session(_: BaseException | None) -> None:
        db.remove()

    @spring.consumer("orders.placed", concurrency=1)
    def place(order: int) -> None:
        left.append(db.registry.has())
        db.execute(text("SELECT 1"))
        if len(left) == 2:
            loop.call_soon_threadsafe(done.set)

    async with spring.worker(), asyncio.timeout(60):
        await spring.publish_many([("orders.placed", 1), ("orders.placed", 2)])
        await done.wait()
    engine.dispose()

    assert left == [False, False]


def test_a_handler_without_an_application_says_what_is_missing(spring: FlaskMainspring) -> None:
    @spring.consumer("orders.placed")
    def place(order: int) -> None: ...

    with spring.testing() as kit:
        spring.sync.publish("orders.placed", 1)
        (ran,) = kit.sync.drain()

    assert isinstance(ran.exception, Misuse)
    assert "call spring.init_app(app) first" in str(ran.exception)


def test_flask_mainspring_migrate_creates_the_tables(spring: FlaskMainspring) -> None:
    runner = _application(spring).test_cli_runner()

    first, second = (runner.invoke(args=["mainspring", "migrate"]).output for _ in range(2))
    spring.sync.close()

    assert first.startswith("applied 0001_mailbox")
    assert second == "the schema is up to date\n"


def test_flask_mainspring_worker_says_in_one_line_what_is_wrong(spring: FlaskMainspring) -> None:
    ended = _application(spring).test_cli_runner().invoke(args=["mainspring", "worker"])

    assert ended.exit_code == 2
    assert ended.output.startswith("Error: no consumer is registered")


def test_flask_lists_the_commands_in_a_sentence_each(spring: FlaskMainspring) -> None:
    runner = _application(spring).test_cli_runner()

    listed = runner.invoke(args=["mainspring", "--help"]).output
    helped = runner.invoke(args=["mainspring", "worker", "--help"]).output

    assert "worker   Run a worker until it is stopped.\n" in listed
    assert "Serve only this group; repeatable." in helped
    assert "a second signal stops them" in " ".join(helped.split())
