"""What a type checker sees. The checks are mypy's: an ignore that is not needed is an error there."""

from dataclasses import dataclass
from typing import Any, assert_type

import pytest
from sqlalchemy import URL, make_url

from mainspring import Context, Mainspring, Receipt, RetryPolicy, exponential, intervals, proportional
from mainspring.model.errors import BadOption

app = Mainspring("memory://")


@app.message("orders.placed")
@dataclass
class OrderPlaced:
    id: int


@app.consumer()
async def typed(order: OrderPlaced, ctx: Context) -> None: ...


@app.consumer("a")
def plain(value: dict[str, Any]) -> int:
    return len(value)


@app.consumer("b")
async def knowing(ctx: Context) -> None: ...


@app.consumer("c")
def bare() -> None: ...


async def test_sending_takes_what_the_handler_takes() -> None:
    async with app:
        assert_type(await typed.send(OrderPlaced(1), delay="1h"), Receipt)
        assert_type(await plain.send({"a": 1}), Receipt)
        assert_type(await knowing.send(), Receipt)
        assert_type(await bare.send(key="k"), Receipt)

        await typed.send("text", validate=False)  # type: ignore[arg-type]
        await plain.send(3, validate=False)  # type: ignore[arg-type]
        await bare.send(3)  # type: ignore[arg-type]


async def test_an_option_that_is_not_there_is_seen_by_the_checker_and_by_the_call() -> None:
    with pytest.raises(BadOption, match=r"publish\(…\) has no option 'dealy'"):
        await app.publish("a", {}, dealy="5m")  # type: ignore[call-arg]
    with pytest.raises(BadOption, match=r"typed\.send\(…\) has no option 'dealy'"):
        await typed.send(OrderPlaced(1), dealy="5m")  # type: ignore[call-arg]
    with pytest.raises(BadOption, match="has no option 'grase'"):
        Mainspring("memory://", grase="5s")  # type: ignore[call-arg]


def test_a_decorated_type_and_a_decorated_function_stay_what_they_are() -> None:
    assert_type(OrderPlaced(1).id, int)
    assert_type(plain({"a": 1}), int)
    assert plain(value={"a": 1}) == 1
    assert plain.__name__ == "plain"


def test_one_class_of_errors_needs_no_tuple() -> None:
    assert_type(exponential("1s", retry_on=ConnectionError), RetryPolicy)
    assert exponential(retry_on=ConnectionError).retry_on == (ConnectionError,)
    assert intervals("5s", 60, give_up_on=KeyError).give_up_on == (KeyError,)
    assert proportional(0.1, retry_on=(OSError, KeyError)).retry_on == (OSError, KeyError)

    with pytest.raises(TypeError, match="write attempts=5"):
        exponential(max_attempts=5)  # type: ignore[call-arg]


def test_the_url_of_an_engine_is_a_url() -> None:
    url = URL.create("postgresql+psycopg", "ann", "p@ss/w:rd", "db", 5433, "shop")

    opened = Mainspring(url, name="shop")

    assert repr(opened) == "<Mainspring 'shop' on postgresql+psycopg://ann@db:5433/shop>"
    assert opened._own.place.address.target == "postgresql://ann:p%40ss%2Fw%3Ard@db:5433/shop"
    assert repr(Mainspring(lambda: make_url("sqlite+aiosqlite:///shop.db"))) == "<Mainspring 'app' on shop.db>"
