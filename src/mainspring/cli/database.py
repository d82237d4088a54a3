"""``mainspring migrate``, ``sql``, ``grants``, ``declare`` and ``prune``: the tables, and what is kept in them."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from datetime import timedelta
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from mainspring.app import storages
from mainspring.app.config import FOREVER, KINDS, Options, write_age
from mainspring.app.environment import read_environment
from mainspring.app.names import check_namespace, check_schema, tables
from mainspring.app.observe.doctor import address_of, code_of
from mainspring.app.options import closest, length
from mainspring.app.storages import read_url
from mainspring.cli.errors import Refused
from mainspring.cli.options import Yes, confirm, progress
from mainspring.cli.output import Column, Columns, many, print_json, print_line, print_list, print_result, print_table
from mainspring.cli.target import UNNAMED, Json, OfApp, OfDatabases, Spec, Target, application, operator
from mainspring.model.measures import SPANS
from mainspring.model.retention import Pruned, Retention
from mainspring.model.roles import Role
from mainspring.model.views import Declaration

_DECLARED: Columns[Declaration] = (
    Column("group", lambda each: each.group),
    Column("topics", lambda each: ", ".join(each.patterns), elastic=True),
    Column("handler", lambda each: each.handler, elastic=True, spare=True),
)
_KINDS = {
    "done": "successful runs",
    "failures": "failed runs",
    "dead": "dead letters",
    "parked": "parked messages",
    "audit": "the audit log",
    "inbox": "inbox messages",
}
_Kept = Annotated[str | None, Parameter(metavar="DURATION")]


async def migrate(app: Spec | None = None, /, *, target: Target = UNNAMED, json: Json = False) -> None:
    """Create or upgrade the tables. Idempotent, and safe to run concurrently."""
    applied = await target.of(app).find(create=True).migrate()
    print_result({"applied": applied}, "; ".join(_done(applied)) or "the schema is up to date", json=json)


def _done(applied: Sequence[str]) -> Iterator[str]:
    again = [each for each in applied if " " in each]  # as in "function publish_one"
    steps = [each for each in applied if each not in again]
    if steps:
        yield f"applied {', '.join(steps)}"
    if again:
        yield f"created again, since it was missing: {', '.join(again)}"


def sql(
    room: Annotated[str | None, Parameter(name="ROOM")] = None,
    /,
    *,
    statements: Annotated[bool, Parameter(negative="", show_default=False)] = False,
    dialect: Literal["postgres", "sqlite"] | None = None,
    url: Annotated[str | None, Parameter(metavar="URL")] = None,
    schema: Annotated[str, Parameter(name=["--schema", "--prefix"], metavar="NAME")] = "mainspring",
    namespace: Annotated[str | None, Parameter(metavar="NAME")] = None,
) -> None:
    """Print the tables and functions as one SQL script, to review and run by hand. Needs no database.

    Parameters
    ----------
    room
        With --statements: only those of this file, such as leases or claims.
    statements
        Print the statements that Mainspring sends instead, each below its name.
    dialect
        The database the script is for [postgres].
    url
        Print for the database of this URL, in place of --dialect. It is not connected to.
    schema
        The schema on PostgreSQL, the prefix of the tables on SQLite.
    namespace
        The namespace of the tables.
    """
    if dialect is not None and url is not None:
        raise Refused("--dialect and --url name two databases: give one")
    engine: Literal["postgresql", "sqlite"] = "sqlite" if dialect == "sqlite" else "postgresql"
    if url is not None:
        engine = "postgresql" if read_url(url).engine == "postgresql" else "sqlite"
    named = tables(check_schema(schema), None if namespace is None else check_namespace(namespace))
    if statements:
        sys.stdout.write(_statements(storages.statements(engine, named), room))
    elif room is not None:
        raise Refused(f"ROOM selects statements: mainspring sql --statements {room}")
    else:
        sys.stdout.write(storages.ddl(engine, named))


def grants(
    to: Annotated[str, Parameter(name="ROLE_NAME")],
    /,
    *,
    role: Annotated[Role, Parameter(show_default=False)],
    owner: Annotated[str | None, Parameter(metavar="ROLE_NAME")] = None,
    target: Target = UNNAMED,
) -> None:
    """Print the SQL that gives a role of PostgreSQL the rights it needs, to review and run by psql. Needs no database.

    Parameters
    ----------
    to
        The role, as the server knows it. It is not created.
    role
        What it may do: publish; work, which is to run workers; read; operate; or migrate, which is to own the tables.
    owner
        The role that migrates, if another one runs these statements.
    """
    if target.spec is not None:
        app = target.find()
        named, engine = app.options.tables, address_of(app).engine
    else:
        around = read_environment()
        around.check()
        named = Options.read({"schema": target.schema, "namespace": target.namespace}, *around.layers()).tables
        engine = "postgresql" if target.url is None else read_url(target.url).engine
    if engine != "postgresql":
        raise Refused(f"grants are for PostgreSQL: {engine} has no roles")
    sys.stdout.write(storages.grants(named, role, to, owner))


def _statements(rooms: Mapping[str, Mapping[str, str]], room: str | None) -> str:
    if room is not None and room not in rooms:
        raise Refused(f"there is no room {room!r}.{closest(room, rooms)} Rooms: {', '.join(rooms)}")
    chosen = rooms if room is None else {room: rooms[room]}
    return "\n".join(
        f"-- {name}\n\n" + "\n".join(f"-- name: {each}\n{text}\n" for each, text in found.items())
        for name, found in chosen.items()
    )


async def declare(
    app: Spec | None = None, /, *, named: OfApp = None, database: OfDatabases = (), json: Json = False
) -> None:
    """Store an application's groups, subscriptions and schedules before a worker runs."""
    spec, target = application(app, named, database)
    async with target.opened() as opened:
        declared = await opened.declare()
    code = code_of(opened)
    if not declared:
        raise Refused(f"{spec} has no consumers: write @app.consumer(…), or app.include() the module that does")
    if json:
        print_json(declared)
        return
    print_list(_DECLARED, declared)
    more = f" and {many(len(code.schedules), 'schedule')}" if code.schedules else ""
    following = f"Next: mainspring worker {app or ('' if named is None else f'--app {named}')}".rstrip()
    if not code.consumers:
        following = f"Next: start the program that claims from {', '.join(each.group for each in code.queues)}"
    print_line(f"{many(len(declared), 'group')}{more} declared. {following}")


async def prune(
    *,
    done: _Kept = None,
    failures: _Kept = None,
    dead: _Kept = None,
    parked: _Kept = None,
    audit: _Kept = None,
    inbox: _Kept = None,
    topic: str | None = None,
    yes: Yes = False,
    target: Target = UNNAMED,
    json: Json = False,
) -> None:
    """Permanently delete finished records older than their retention, in this namespace.

    Workers do the same periodically, by the retention of their app, which also applies to kinds not given here.

    Values given here apply to every topic. The deletion is recorded in the audit log.

    Parameters
    ----------
    done
        Keep successful, snoozed and cancelled runs for this long, such as 7d; `forever` keeps them.
    failures
        Keep failed runs for this long.
    dead
        Keep dead letters for this long.
    parked
        Keep messages that no group subscribes to for this long.
    audit
        Keep the audit log for this long.
    inbox
        Keep finished inbox messages for this long.
    topic
        Only runs, dead letters and parked messages of this topic or pattern of topics, such as 'orders.*'.
    """
    given = {"done": done, "failures": failures, "dead": dead, "parked": parked, "audit": audit, "inbox": inbox}
    chosen: dict[str, Any] = {name: _read(value, name) for name, value in given.items() if value is not None}
    app = target.find()
    retention = _with(app.options.retention, chosen)
    older = _older({name: getattr(retention, name) for name in _KINDS}) or "finished records"
    of = "" if topic is None else f" of the topic {topic}"
    by_topic = "".join(f"; of {pattern} {_older(ages, every=True)}" for pattern, ages in retention.topics.items())
    confirm(f"Remove {older}{of}{by_topic}?", "Nothing removed.", yes=yes)
    async with app:
        with progress("Purge", None) as advance:
            removed = await app.prune(retention, topic=topic, by=operator(), progress=advance)
    if json:
        print_json({**{each.name: getattr(removed, each.name) for each in fields(Pruned)}, "total": removed.total})
        return
    print_table(
        (Column("removed", right=True), Column("what", elastic=True), Column("kept for")),
        [(f"{count:,}", what, age) for count, what, age in _counted(removed, retention)],
    )


def _counted(removed: Pruned, kept: Retention) -> list[tuple[int, str, str]]:
    runs = f"{write_age(kept.done)}, failed ones {write_age(kept.failures)}"
    return [
        (removed.messages, "finished messages", write_age(kept.repeats)),
        (removed.runs, "runs", runs),
        (removed.dead, "dead letters", write_age(kept.dead)),
        (removed.parked, "parked messages", write_age(kept.parked)),
        (removed.workers, "stopped workers", write_age(kept.workers)),
        (removed.audit, "audit log entries", write_age(kept.audit)),
        (removed.schedules, "finished one-time schedules", write_age(kept.done)),
        (removed.inbox, "inbox messages", write_age(kept.inbox)),
        (removed.leases, "leases not held", write_age(kept.leases)),
        (removed.cursors, "cursors of removed shards", write_age(kept.cursors)),
        (removed.progress, "progress reports", "while they run"),
        (removed.likenesses, "unique keys", "1h, or their window"),
        (removed.measures, "delivery statistics", ", ".join(map(write_age, SPANS.values()))),
    ]


def _with(kept: Retention, chosen: Mapping[str, Any]) -> Retention:
    """Apply the given ages to every topic."""
    rest = {
        pattern: {kind: ages[kind] for kind in KINDS if kind in ages and kind not in chosen}
        for pattern, ages in kept.topics.items()
    }
    return replace(kept, **chosen, topics={pattern: ages for pattern, ages in rest.items() if ages})


def _older(ages: Mapping[Any, timedelta | None], *, every: bool = False) -> str:
    named = [(_KINDS[name], age) for name, age in ages.items() if every or age is not None]
    return ", ".join(f"{what} after {write_age(age)}" if age is not None else f"{what} never" for what, age in named)


def _read(value: str, option: str) -> timedelta | None:
    return None if value == FOREVER else length(value, option)
