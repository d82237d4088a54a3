"""``mainspring brokers``: the routes and intakes of an app, checked and declared."""

from __future__ import annotations

from cyclopts import App

from mainspring.app.broker.brokers import BrokerCheck, BrokerDeclared, BrokerView
from mainspring.cli.output import Column, Columns, print_list
from mainspring.cli.target import UNNAMED, Json, Spec, Target

app: App = App(name="brokers", help="List, check and declare the brokers of routes and intakes.")

_NONE = "No brokers: the app has no app.route(…), app.intake(…) or source=."
_NOTHING = "nothing: all was there"
_KNOWN: Columns[BrokerView] = (
    Column("name", lambda each: each.name, elastic=True),
    Column("direction", lambda each: each.direction),
    Column("broker", lambda each: each.url, elastic=True),
    Column("topics", lambda each: ", ".join(each.topics) or "by type", elastic=True),
)
_CHECKED: Columns[BrokerCheck] = (
    Column("name", lambda each: each.broker.name, elastic=True),
    Column("direction", lambda each: each.broker.direction),
    Column("lag", lambda each: each.lag, right=True),
    Column("finding", lambda each: "; ".join(each.problems) or "ok", elastic=True, wraps=True),
)
_MADE: Columns[BrokerDeclared] = (
    Column("name", lambda each: each.broker.name, elastic=True),
    Column("made", lambda each: each.error or ", ".join(each.made) or _NOTHING, elastic=True, wraps=True),
)


@app.command(name="list")
async def list_(app: Spec | None = None, /, *, target: Target = UNNAMED, json: Json = False) -> None:
    """List the routes and intakes of the app's code; connects to nothing."""
    print_list(_KNOWN, await target.of(app).find().brokers.list(), json=json, empty=_NONE)


@app.command
async def check(app: Spec | None = None, /, *, target: Target = UNNAMED, json: Json = False) -> int:
    """Connect to each broker, and say what is wrong or missing; the exit code is 1 if something is."""
    found = await target.of(app).find().brokers.check()
    print_list(_CHECKED, found, json=json, empty=_NONE)
    return 0 if all(each.ok for each in found) else 1


@app.command
async def declare(app: Spec | None = None, /, *, target: Target = UNNAMED, json: Json = False) -> int:
    """Make the exchanges, queues, topics and streams that are missing; the exit code is 1 if one cannot be made."""
    found = await target.of(app).find().brokers.declare()
    print_list(_MADE, found, json=json, empty=_NONE)
    return 1 if any(each.error for each in found) else 0
