"""One definition is a call that runs on its lane, and a script for those who bring a connection."""

import inspect
from collections.abc import Coroutine, Sequence
from datetime import UTC, datetime
from typing import Any, Protocol, TypeVar, assert_type

import pytest

from mainspring.storage.operation import HandSet, Lane, Nowhere, Operation, Operations, operation
from mainspring.storage.script import Row, Script, Statement, run

T = TypeVar("T")
NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


class Echo:
    """A connection that answers each statement with its own arguments, and remembers them."""

    def __init__(self) -> None:
        self.statements: list[Statement] = []

    def execute(self, statement: Statement) -> Sequence[Row]:
        self.statements.append(statement)
        return [statement.args]


class Lanes:
    """A gateway that runs scripts in place, and remembers on which lanes."""

    def __init__(self) -> None:
        self.used: list[Lane] = []
        self.connection = Echo()

    async def run(self, script: Script[T], lane: Lane) -> T:
        self.used.append(lane)
        return run(self.connection, script)


class Shelf(Protocol):
    """The contract."""

    async def put(self, name: str, *, weight: int = 1) -> list[Row]: ...
    async def put_all(self, names: Sequence[str]) -> int: ...


class SqlShelf(Operations):
    """A room that keeps it."""

    @operation("write")
    def put(self, name: str, *, weight: int = 1) -> Script[list[Row]]:
        """Put one thing on the shelf."""
        return list((yield Statement("put", (name, weight, self.now))))

    @operation("settle")
    def put_all(self, names: Sequence[str]) -> Script[int]:
        rows: list[Row] = []
        for name in names:
            rows += yield from self.put.script(name)
        return len(rows)


@pytest.fixture
def lanes() -> Lanes:
    return Lanes()


@pytest.fixture
def shelf(lanes: Lanes) -> SqlShelf:
    return SqlShelf(lanes, HandSet(NOON))


async def test_a_call_and_its_script_ask_and_answer_the_same(shelf: SqlShelf, lanes: Lanes) -> None:
    connection = Echo()

    called = await shelf.put("cup", weight=3)
    driven = run(connection, shelf.put.script("cup", weight=3))

    assert called == driven == [("cup", 3, NOON)]
    assert connection.statements == lanes.connection.statements == [Statement("put", ("cup", 3, NOON))]


async def test_each_operation_runs_on_the_lane_of_its_definition(shelf: SqlShelf, lanes: Lanes) -> None:
    await shelf.put("cup")
    await shelf.put_all(["cup", "jug"])

    assert lanes.used == ["write", "settle"], "a script that is part of another runs where that runs"


def test_making_the_script_runs_nothing(shelf: SqlShelf, lanes: Lanes) -> None:
    script = shelf.put.script("cup")

    assert (lanes.used, lanes.connection.statements) == ([], [])
    assert next(script) == Statement("put", ("cup", 1, NOON))


def test_the_clock_is_read_when_the_script_is_run() -> None:
    clock = HandSet()
    script = SqlShelf(Nowhere(), clock).put.script("cup")

    clock.now = NOON

    assert next(script).args == ("cup", 1, NOON)


def test_in_production_the_clock_says_nothing() -> None:
    assert SqlShelf(Nowhere(), HandSet()).now is None


def test_an_operation_is_bound_once_to_each_room(shelf: SqlShelf, lanes: Lanes) -> None:
    other = SqlShelf(lanes, HandSet())

    assert shelf.put is shelf.put
    assert vars(shelf)["put"] is shelf.put, "from the second time on it is an attribute like any other"
    assert other.put is not shelf.put
    assert next(other.put.script("cup")).args[-1] is None
    assert next(shelf.put.script("cup")).args[-1] is NOON


async def test_a_gateway_that_leads_nowhere_has_scripts_and_runs_none() -> None:
    shelf = SqlShelf(Nowhere(), HandSet())

    assert len(run(Echo(), shelf.put.script("cup"))) == 1
    with pytest.raises(AssertionError, match="for the lane 'write' has no database"):
        await shelf.put("cup")


def test_names_parameters_and_docstrings_are_those_of_the_method(shelf: SqlShelf) -> None:
    assert shelf.put.__name__ == "put"  # type: ignore[attr-defined]  # as of any function that is wrapped
    assert shelf.put.__doc__ == SqlShelf.put.__doc__ == "Put one thing on the shelf."
    assert list(inspect.signature(shelf.put).parameters) == ["name", "weight"]
    assert list(inspect.signature(shelf.put.script).parameters) == ["name", "weight"]


async def test_its_types_are_those_of_the_method(shelf: SqlShelf) -> None:
    contract: Shelf = shelf

    called: Coroutine[Any, Any, int] = shelf.put_all(["cup"])
    assert_type(await called, int)
    assert_type(await contract.put("cup"), list[Row])
    assert_type(shelf.put_all.script(["cup"]), Script[int])
    taken: Operation[[Sequence[str]], int] = shelf.put_all
    assert run(Echo(), taken.script(["cup", "jug"])) == 2
    with pytest.raises(TypeError, match="weigth"):
        shelf.put("cup", weigth=2)  # type: ignore[call-arg,unused-coroutine]
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        shelf.put.script()  # type: ignore[call-arg]
