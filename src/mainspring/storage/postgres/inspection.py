"""Looking a PostgreSQL database over: clocks, poolers, old snapshots, vacuuming, indexes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime

from mainspring.model.symptom import Symptom, Tolerances, of_clocks
from mainspring.storage.migrations import migrations, of_indexes
from mainspring.storage.postgres.dialect import PACKAGE, Names
from mainspring.storage.script import Row, Script

_MANY_TIMES = 3
"""How much more than autovacuum waits for is more than a busy moment."""


def examine(
    names: Names, version: int, tolerances: Tolerances, host: Callable[[], datetime], served_by: int | None = None
) -> Script[list[Symptom]]:
    """See ``Schema.examine``. ``served_by`` is the reported process of this connection."""
    before = host()
    ((now, pid, in_recovery, vacuums, role, database, replicated),) = yield names("examine_server", names.quoted)
    found = [of_clocks(now - _middle(before, host()), tolerances)]
    if in_recovery:
        summary = "the server is a standby, which only reads: nothing can be published or handled"
        found.append(
            Symptom(
                "server",
                "error",
                summary,
                "name the primary in the URL, or all of them with target_session_attrs=read-write",
            )
        )
    if replicated:
        summary = (
            "a logical replication writes into these tables: sequences, and with them the order and the fences, are "
            "not replicated, and what the other server settles is claimed here too"
        )
        advice = f"leave the schema {names.quoted} out of the publication, and migrate a database of its own"
        found.append(Symptom("server", "error", summary, advice))
    if served_by is not None:
        found.append(_of_pooler(is_between=served_by != pid))
    age = tolerances.snapshot
    sessions = yield names("examine_sessions", age)
    prepared = yield names("examine_prepared", age)
    horizon = yield names("examine_horizon", tolerances.transactions)
    ((hidden,),) = yield names("examine_hidden")
    held = [*_of_sessions(sessions, database), *_of_prepared(prepared), *map(_of_horizon, horizon)]
    if hidden:
        held.append(_of_hidden(hidden, role))
    found += held or [
        Symptom("snapshots", "ok", f"no transaction has been open for longer than {_span(age.total_seconds())}")
    ]
    tables = yield names("examine_tables", names.quoted)
    found += _of_vacuum(tables, names, tolerances, is_on=vacuums)
    indexes = yield names("examine_indexes", names.quoted)
    found += _of_indexes(indexes, names, version)
    return found


def _middle(one: datetime, other: datetime) -> datetime:
    return one + (other - one) / 2


def _of_pooler(*, is_between: bool) -> Symptom:
    if not is_between:
        return Symptom("pooler", "ok", "none is between: the server itself answers")
    return Symptom(
        "pooler",
        "note",
        "a pooler such as PgBouncer is between: what is right needs no session, but in its transaction mode nothing is "
        "prepared, and no bell is heard",
        "for low latency, let workers connect to the server itself, or to a pool in session mode",
    )


def _of_sessions(sessions: Sequence[Row], database: str) -> Iterator[Symptom]:
    for pid, application, user, state, open_for, asked_ago, role in sessions:
        forgotten = f"ALTER ROLE {role} IN DATABASE {database} SET idle_in_transaction_session_timeout = '10min';"
        who = f"session {pid} of {user or 'an unknown role'} ({application or 'without application_name'})"
        doing = f"{state or 'state unknown'}, its last query began {_span(asked_ago)} ago"
        yield Symptom(
            "snapshots",
            "warning",
            f"{who} has had a transaction open for {_span(open_for)}, {doing}: nothing that is settled can "
            "be removed in that time, and claiming becomes slower",
            f"end it where it was begun, or: SELECT pg_terminate_backend({pid});"
            + (f" So that forgotten ones end by themselves: {forgotten}" if role else ""),
        )


def _of_prepared(prepared: Sequence[Row]) -> Iterator[Symptom]:
    for gid, owner, open_for in prepared:
        yield Symptom(
            "snapshots",
            "warning",
            f"transaction {gid!r} of {owner} was prepared {_span(open_for)} ago and never ended: nothing that "
            "is settled can be removed until it ends",
            f"COMMIT PREPARED {_quoted(gid)}; or ROLLBACK PREPARED {_quoted(gid)};",
        )


def _of_horizon(row: Row) -> Symptom:
    what, name, pid, behind = row
    back = f"as of {behind:,} transactions ago"
    removed = "nothing that is settled can be removed, and claiming becomes slower"
    drop = f"SELECT pg_drop_replication_slot({_quoted(name)});"
    look = "look for long queries on it, or set hot_standby_feedback = off there"
    match what:
        case "catalogs":
            summary = f"replication slot {name} keeps the system catalogs {back}, and they grow"
            advice = f"let its subscriber catch up, or, where there is none any more: {drop}"
            return Symptom("snapshots", "note", summary, advice)
        case "slot":
            summary = f"replication slot {name}, which is unused, keeps rows {back}: {removed}"
            advice = f"start its standby again, or, where there is none any more: {drop}"
        case "slot in use":
            summary = f"the standby of replication slot {name} (walsender {pid}) keeps rows {back}: {removed}"
            advice = look
        case _:
            summary = f"the standby {name or 'without application_name'} (walsender {pid}) keeps rows {back}: {removed}"
            advice = look
    return Symptom("snapshots", "warning", summary, advice)


def _of_hidden(hidden: int, role: str) -> Symptom:
    sessions = "1 session" if hidden == 1 else f"{hidden:,} sessions"
    summary = f"{sessions} of other roles cannot be looked at from here"
    return Symptom("snapshots", "note", summary, f"GRANT pg_read_all_stats TO {role}; and ask again")


def _of_vacuum(tables: Sequence[Row], names: Names, tolerances: Tolerances, *, is_on: bool) -> Iterator[Symptom]:
    troubles = 0
    if not is_on:
        troubles += 1
        yield Symptom(
            "autovacuum",
            "error",
            "it is off for the whole server: what is settled is never removed, and everything becomes slower",
            "ALTER SYSTEM SET autovacuum = on; ALTER SYSTEM SET track_counts = on; SELECT pg_reload_conf();",
        )
    for name, enabled, dead, waits_for, last in tables:
        table = f"{names.quoted}.{name}"
        since = "never" if last is None else f"{_span(last)} ago"
        if not enabled:
            troubles += 1
            yield Symptom(
                "autovacuum",
                "error",
                f"it is off for {name}, which has {dead:,} dead rows and was vacuumed {since}",
                f"ALTER TABLE {table} RESET (autovacuum_enabled);",
            )
        elif dead > _MANY_TIMES * waits_for + tolerances.dead_rows:
            troubles += 1
            yield Symptom(
                "autovacuum",
                "warning",
                f"it is behind with {name}: {dead:,} dead rows, where it waits for {waits_for:,.0f}; vacuumed {since}",
                f"look whether a snapshot is held open, raise autovacuum_max_workers, or: VACUUM {table};",
            )
    if not troubles:
        yield Symptom("autovacuum", "ok", f"it keeps up with all {len(tables)} tables")


def _of_indexes(indexes: Sequence[Row], names: Names, version: int) -> Iterator[Symptom]:
    missing = of_indexes(migrations(PACKAGE), names.quoted, [name for name, _ in indexes], version)
    for each in missing:
        # Beside the work that goes on, which a plain CREATE INDEX would hold up.
        yield Symptom(each.about, each.grade, each.summary, each.advice.replace("INDEX ", "INDEX CONCURRENTLY ", 1))
    broken = [name for name, is_valid in indexes if not is_valid]
    for name in broken:
        yield Symptom(
            "indexes",
            "error",
            f"{name} is invalid, as after a CREATE INDEX CONCURRENTLY that failed: it costs writes and is never used",
            f"REINDEX INDEX CONCURRENTLY {names.quoted}.{name};",
        )
    if not missing and not broken:
        yield Symptom("indexes", "ok", f"all {len(indexes)} are there and valid")


def _span(seconds: float) -> str:
    """A length of time in its two largest units."""
    left, units = max(seconds, 0.0), []
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        count, left = divmod(left, size)
        if count:
            units.append(f"{count:.0f} {unit}")
    return " ".join(units[:2]) or f"{left:.1f} s"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
