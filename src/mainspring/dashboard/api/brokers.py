"""Brokers: routes and intakes with the state of their connections, and a check of the brokers themselves."""

from __future__ import annotations

from dataclasses import dataclass, field

from msgspec import Struct

from mainspring.app.broker.state import BrokerState, Condition, Direction
from mainspring.dashboard.api.overview import CAP
from mainspring.dashboard.api.views import Rows
from mainspring.dashboard.responses import Problem, shown
from mainspring.dashboard.route import Call, Nothing, get, post


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker(BrokerState):
    """A route or an intake, and what its live workers last reported."""

    condition: Condition = field()
    """``idle`` connects with the next message; ``unserved``: no live worker has it."""


class BrokerList(Rows[Broker], frozen=True):
    """The routes, then the intakes, by name. Deliveries are counted up to ``cap``."""

    cap: int
    checkable: bool
    """Whether the dashboard has the code of some of them, and can check their brokers."""


class Finding(Struct, frozen=True):
    """What is wrong with a broker, and what to change."""

    problem: str


class BrokerChecked(Struct, frozen=True):
    """Whether a broker responds to this process, and what is wrong there."""

    name: str
    direction: Direction
    kind: str
    url: str
    findings: list[Finding]
    """None if all is well."""
    lag: int | None
    """How many messages wait in the broker; null for a route, or if that is unknown."""
    took: float
    """Seconds."""


class BrokersChecked(Rows[BrokerChecked], frozen=True):
    """The brokers that the application's code names."""


async def brokers(call: Call, _params: Nothing) -> BrokerList:
    """Return the routes and intakes, as workers last reported them. Connects to no broker."""
    rows = [shown(Broker, each) for each in await call.app.brokers.states(CAP)]
    return BrokerList(rows, CAP, bool(await call.app.brokers.list()))


async def check(call: Call, _params: Nothing) -> BrokersChecked:
    """Connect to each broker of the code, from this process, and return what is wrong."""
    if not await call.app.brokers.list():
        raise Problem(
            409,
            "no_app",
            "this dashboard has no code with routes or intakes: start it with that, as in: "
            "mainspring dashboard --app MODULE:APP",
        )
    return BrokersChecked(
        [
            shown(
                BrokerChecked,
                each.broker,
                findings=[Finding(problem) for problem in each.problems],
                lag=each.lag,
                took=each.took,
            )
            for each in await call.readings.brokers()
        ]
    )


ROUTES = (
    get("/api/brokers", brokers, "The routes and intakes, and the state of their connections"),
    post("/api/brokers/check", check, "Connect to the brokers of the code, and report what is wrong"),
)
