"""The rights of each role on PostgreSQL: one table, from which statements, checks and migrations are derived."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import NamedTuple

from mainspring.model.errors import BadOption
from mainspring.model.roles import Role
from mainspring.storage.migrations import Kind, migrations, objects
from mainspring.storage.postgres.dialect import PACKAGE, Names
from mainspring.storage.script import Script

_REST = "*"
"""Every table that is not named, those of later migrations included."""
_LONGEST = 63
_PRIVILEGE = re.compile(r"([A-Z]+)(?: \(([^)]*)\))?")

_PUBLISH = {
    "migration": "SELECT",
    "setting": "SELECT",
    "subscription": "SELECT",
    "bell": "SELECT",
    # Where a name leads, and why nothing is accepted.
    "move": "SELECT",
    "fence": "SELECT",
    # Not the payload, the headers or what else others have published.
    "message": "SELECT (id, topic, key, published_at, copies), INSERT",
    # To lock rows, PostgreSQL asks for the right to update one column.
    "delivery": "SELECT, INSERT, UPDATE (cancel_asked), DELETE",
    "parked": "SELECT, INSERT, UPDATE (due_at), DELETE",
    "likeness": "SELECT, INSERT, UPDATE",
    "joint": "INSERT",
    "joint_end": "SELECT (join_id), INSERT",
    "run": "INSERT",
    "ended": "INSERT",
}
_OPERATE = {
    _REST: "SELECT",
    # A line of the audit belongs to every action of an operator: no other role may write one.
    "audit": "SELECT, INSERT, UPDATE (detail)",
    "message": "SELECT, INSERT",
    # Not the count of attempts, so that it cannot claim.
    "delivery": "SELECT, INSERT, UPDATE (due_at, held_by, claimed_at, epoch, cancel_asked, schedule, manual), DELETE",
    "parked": "SELECT, INSERT, UPDATE (due_at), DELETE",
    "dead": "SELECT, UPDATE (priority), DELETE",
    "likeness": "SELECT, INSERT, UPDATE",
    "joint": "SELECT, INSERT",
    "joint_end": "SELECT, INSERT",
    "run": "SELECT, INSERT",
    "ended": "SELECT, INSERT",
    "groups": "SELECT, UPDATE (paused_at, paused_by, pause_reason), DELETE",
    "subscription": "SELECT, DELETE",
    "bell": "SELECT, DELETE",
    "limits": "SELECT, DELETE",
    "spent": "SELECT, DELETE",
    "tally": "SELECT, DELETE",
    "worker": "SELECT, UPDATE (draining_at, drained_by, drain_reason)",
    "schedule": "SELECT, INSERT, UPDATE, DELETE",
    "freeze": "SELECT, INSERT, UPDATE, DELETE",
    "inbox": "SELECT, UPDATE (status, changed_at)",
    "lease": "SELECT, UPDATE (holder, expires_at)",
    "fanout_policy": "SELECT, INSERT, UPDATE, DELETE",
    "fanout_cursor": "SELECT, INSERT, UPDATE",
}
_WORK = {
    _REST: "SELECT, INSERT, UPDATE, DELETE",
    "migration": "SELECT",
    "setting": "SELECT",
    "readable": "SELECT",
    "fence": "SELECT",
    # It prunes the audit, and writes none: the actions of operators need INSERT.
    "audit": "SELECT, UPDATE (detail), DELETE",
}
TABLES: dict[Role, dict[str, str]] = {
    "publish": _PUBLISH,
    "work": _WORK,
    "read": {_REST: "SELECT"},
    "operate": _OPERATE,
}
"""What each role may do with each table and view. Functions have the rights of their caller, so each may call all."""
SEQUENCES: dict[Role, str] = {"work": "USAGE"}
"""What each role may do with sequences; those of identity columns need no right."""


class Right(NamedTuple):
    """One privilege on one object, or on one of its columns."""

    kind: str
    name: str
    privilege: str
    column: str | None = None


def grants(names: Names, role: Role, to: str, owner: str | None = None) -> list[str]:
    """Return the statements that give a role of the database these rights, now and after later migrations.

    The default privileges are those of ``owner``, the role that migrates [the one that runs the statements].
    """
    if role == "migrate":
        return _ownership(names, to)
    schema, grantee = names.quoted, quoted(to)
    by_rights: dict[str, list[str]] = {}
    for name in _named("table", "view"):
        by_rights.setdefault(_rights(role, name), []).append(f"{schema}.{name}")
    tables = [f"GRANT {rights} ON {', '.join(sorted(each))}" for rights, each in sorted(by_rights.items()) if rights]
    later = [("TABLES", TABLES[role].get(_REST)), ("SEQUENCES", SEQUENCES.get(role)), ("FUNCTIONS", "EXECUTE")]
    for_role = "" if owner is None else f"FOR ROLE {quoted(owner)} "
    return [
        f"{statement} TO {grantee};"
        for statement in (
            f"GRANT USAGE ON SCHEMA {schema}",
            *tables,
            *(f"GRANT {right} ON SEQUENCE {schema}.{name}" for _, name, right, _ in _of_sequences(role)),
            f"GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA {schema}",
            *(
                f"ALTER DEFAULT PRIVILEGES {for_role}IN SCHEMA {schema} GRANT {rights} ON {what}"
                for what, rights in later
                if rights
            ),
        )
    ]


def _ownership(names: Names, to: str) -> list[str]:
    """Return the statements that let a role own the schema, with what is in it already."""
    schema, owner = names.quoted, quoted(to)
    return [
        f"CREATE SCHEMA IF NOT EXISTS {schema};",
        f"ALTER SCHEMA {schema} OWNER TO {owner};",
        f"""DO $owner$
DECLARE
    statement text;
BEGIN
    FOR statement IN
        SELECT format(
            'ALTER %s %s OWNER TO %I',
            CASE c.relkind WHEN 'S' THEN 'SEQUENCE' WHEN 'v' THEN 'VIEW' ELSE 'TABLE' END, c.oid::regclass, {_text(to)}
        )
        FROM pg_class AS c
        WHERE c.relnamespace = to_regnamespace({_text(schema)}) AND c.relkind IN ('r', 'p', 'v', 'S')
          AND NOT EXISTS (
              -- What goes with another table. Before PostgreSQL 15 a generated column depends on others, and is none.
              SELECT FROM pg_depend AS d
              WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.objsubid = 0 AND d.deptype IN ('a', 'i')
          )
        UNION ALL
        SELECT format('ALTER FUNCTION %s OWNER TO %I', p.oid::regprocedure, {_text(to)})
        FROM pg_proc AS p
        WHERE p.pronamespace = to_regnamespace({_text(schema)})
    LOOP
        EXECUTE statement;
    END LOOP;
END
$owner$;""",  # noqa: S608 - names are quoted
    ]


def quoted(name: str) -> str:
    """Return the name of a role as an identifier. Raises BadOption for what can be none."""
    if not name or "\0" in name or len(name.encode()) > _LONGEST:
        raise BadOption(f"{name!r} cannot be the name of a role: use 1 to {_LONGEST} bytes, such as shop_app")
    return '"{}"'.format(name.replace('"', '""'))


def _text(value: str) -> str:
    return "'{}'".format(value.replace("'", "''"))


def lacking(names: Names, to: str | None = None) -> Script[dict[Role, list[str]]]:
    """Return what a role of the database [the current one] lacks to be each role, of the objects that are there."""
    wanted = [(role, *right) for role in TABLES for right in _wanted(role)]
    rows = yield names("rights_lacking", names.schema, *map(list, zip(*wanted, strict=True)), to)
    missing: dict[Role, dict[tuple[str, str], list[tuple[str, str | None]]]] = {role: {} for role in TABLES}
    grantee = ""
    for role, kind, name, privilege, column, current in rows:
        grantee = current
        missing[role].setdefault((kind, name), []).append((privilege, column))
    return {
        role: [
            f"GRANT {_joined(rights)} ON {_on(names, *which)} TO {quoted(grantee)};" for which, rights in each.items()
        ]
        for role, each in missing.items()
    }


def _on(names: Names, kind: str, name: str) -> str:
    match kind:
        case "schema":
            return f"SCHEMA {names.quoted}"
        case "function":
            return f"ALL FUNCTIONS IN SCHEMA {names.quoted}"
        case "sequence":
            return f"SEQUENCE {names.quoted}.{name}"
        case _:
            return f"{names.quoted}.{name}"


def _joined(rights: Sequence[tuple[str, str | None]]) -> str:
    columns: dict[str, list[str]] = {}
    for privilege, column in rights:
        columns.setdefault(privilege, []).extend([column] if column else [])
    return ", ".join(f"{each} ({', '.join(named)})" if named else each for each, named in columns.items())


@cache
def _wanted(role: Role) -> tuple[Right, ...]:
    tables = (right for name in _named("table", "view") for right in _of_table(name, _rights(role, name)))
    return Right("schema", "", "USAGE"), *tables, *_of_sequences(role), Right("function", "", "EXECUTE")


def _of_sequences(role: Role) -> list[Right]:
    return [Right("sequence", name, SEQUENCES[role]) for name in _named("sequence") if role in SEQUENCES]


def _of_table(name: str, rights: str) -> Iterator[Right]:
    for privilege, columns in _PRIVILEGE.findall(rights):
        for column in columns.split(", ") if columns else (None,):
            yield Right("table", name, privilege, column)


def _rights(role: Role, table: str) -> str:
    return TABLES[role].get(table, TABLES[role].get(_REST, ""))


@cache
def _named(*kinds: Kind) -> tuple[str, ...]:
    """Return the objects of the newest schema; the table of migrations is not created by one of them."""
    made = sorted(name for (kind, name), there in objects(migrations(PACKAGE)).items() if there and kind in kinds)
    return (*made, "migration") if "table" in kinds else tuple(made)
