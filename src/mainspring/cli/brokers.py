"""``mainspring brokers``: the routes and intakes of an app, checked and declared."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from cyclopts import App

from mainspring.app.broker.brokers import BrokerCheck, BrokerDeclared
from mainspring.app.broker.state import BrokerState
from mainspring.app.mainspring import Mainspring
from mainspring.cli.errors import Refused
from mainspring.cli.output import Column, Columns, many, print_line, print_list, when
from mainspring.cli.target import UNNAMED, Json, Spec, Target
from mainspring.model.errors import MainspringError
from mainspring.model.redaction import redacted

app: App = App(name="brokers", help="List, check and declare the brokers of routes and intakes.")

_NONE = "No brokers: the app has no app.route(…), app.intake(…) or source=."
_PATIENCE = 5.0
"""Seconds that the database has to be read."""
_NOTHING = "nothing: all was there"


def _in_words(each: BrokerState) -> str:
    if each.condition == "unserved":
        return "no worker"
    if each.condition == "idle":
        return "not used yet"
    return f"connected on {each.connected} of {many(each.workers, 'worker')}"


_KNOWN: tuple[Column[Any], ...] = (
    Column("name", lambda each: each.name, elastic=True),
    Column("direction", lambda each: each.direction),
    Column("broker", lambda each: each.url, elastic=True),
    Column("topics", lambda each: ", ".join(each.topics) or "by type", elastic=True),
)
_STATED: Columns[BrokerState] = (
    *_KNOWN,
    Column("state", _in_words, elastic=True),
    Column("waiting", lambda each: each.waiting if each.direction == "out" else each.lag, right=True),
    Column("dead", lambda each: each.dead or None, right=True),
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


def _coded(app: str | None, target: Target) -> Mainspring:
    """Return the app, whose code names the brokers; a database names none that could be connected to."""
    named = target.of(app)
    if named.spec is None:
        raise Refused("no application given: the code names the brokers, so write MODULE:APP, such as shop:app")
    return named.code()


@app.command(name="list")
async def list_(app: Spec | None = None, /, *, target: Target = UNNAMED, json: Json = False) -> None:
    """List the routes and intakes, and what the workers report of them; connects to no broker.

    Without a database that can be read, those of the app's code.
    """
    found = target.of(app).find()
    try:
        async with asyncio.timeout(_PATIENCE), found:
            stated = await found.brokers.states()
    except (MainspringError, TimeoutError) as error:
        print_list(_KNOWN, await found.brokers.list(), json=json, empty=_NONE)
        why = str(error) or f"it did not answer within {_PATIENCE:g} s"
        sys.stderr.write(f"The database cannot be read, so what the workers report is not shown: {redacted(why)}\n")
        return
    if print_list(_STATED, stated, json=json, empty=_NONE):
        for each in stated:
            if each.error is not None and each.down_since is not None:
                print_line(f"{each.name} is not connected since {when(each.down_since)}: {each.error}")


@app.command
async def check(app: Spec | None = None, /, *, target: Target = UNNAMED, json: Json = False) -> int:
    """Connect to each broker, and say what is wrong or missing; the exit code is 1 if something is."""
    found = await _coded(app, target).brokers.check()
    print_list(_CHECKED, found, json=json, empty=_NONE)
    if not json and any("declare=True" in problem for each in found for problem in each.problems):
        print_line(f"Next: mainspring brokers declare {target.of(app).spec}")
    return 0 if all(each.ok for each in found) else 1


@app.command
async def declare(app: Spec | None = None, /, *, target: Target = UNNAMED, json: Json = False) -> int:
    """Make the exchanges, queues, topics and streams that are missing; the exit code is 1 if one cannot be made."""
    found = await _coded(app, target).brokers.declare()
    print_list(_MADE, found, json=json, empty=_NONE)
    return 1 if any(each.error for each in found) else 0
