"""Recurring jobs, delays, calendars and clocks."""

from __future__ import annotations

from mutants.mutant import Mutant

_DECLARED = "tests/contract/test_declared_schedules.py"

MUTANTS: list[Mutant] = [
    # --- when it is due --------------------------------------------------------------------------------------
    Mutant(
        "a time that comes twice in autumn fires twice",
        file="timing/cron/plan.py",
        was="        if plan.interval:\n            found = at_or_after(",
        becomes="        if plan:\n            found = at_or_after(",
        caught_by="tests/unit/timing/cron/test_clock_changes.py",
    ),
    Mutant(
        "a time that spring skips never fires",
        file="timing/cron/plan.py",
        was="        if fires:\n            return change.moment\n",
        becomes="",
        caught_by="tests/unit/timing/cron/test_clock_changes.py",
    ),
    Mutant(
        "with day_match='or' a day field that restricts nothing matches every day",
        file="timing/cron/plan.py",
        was='either=both and day_match == "or"',
        becomes='either=day_match == "or"',
        caught_by="tests/unit/timing/cron/test_vectors.py",
    ),
    Mutant(
        "a day off is that of UTC instead of the schedule's zone",
        file="runtime/schedules/plan.py",
        was="day = found.astimezone(self.zone).date()\n        return",
        becomes="day = found.astimezone(UTC).date()\n        return",
        caught_by="tests/unit/runtime/schedules/test_plan.py",
    ),
    Mutant(
        "a delayed message is due one tick early",
        file="storage/sqlite/sql/claims.sql#claim_scan",
        was="d.due_at BETWEEN ?3 AND ?4",
        becomes="d.due_at BETWEEN ?3 AND ?4 + 1",
        caught_by="tests/contract/test_claim.py::test_a_delivery_is_due_at_its_very_instant_and_not_before",
    ),
    # --- what becomes of what is due -------------------------------------------------------------------------
    Mutant(
        "where 10,000 have been missed, the last of them is taken twice",
        file="runtime/schedules/decisions.py",
        was="at > latest[-1]",
        becomes="at >= latest[-1]",
        caught_by="tests/unit/runtime/schedules/test_deciding.py",
    ),
    Mutant(
        "misfire='skip' runs what is late",
        file="runtime/schedules/decisions.py",
        was="[at for at in pending.latest if at >= tolerated]",
        becomes="pending.latest",
        caught_by="tests/unit/runtime/schedules/test_deciding.py",
    ),
    Mutant(
        "overlap='skip' takes no notice of a run that goes on",
        file="runtime/schedules/decisions.py",
        was="return _Fit() if busy else",
        becomes="return _Fit() if due.waiting else",
        caught_by="tests/unit/runtime/schedules/test_deciding.py",
    ),
    Mutant(
        "of two schedulers, both let one occurrence go on",
        file="storage/sqlite/sql/timetable.sql#timetable_move",
        was=" AND s.next_at = CELL(v, 1)",
        becomes="",
        caught_by="tests/integration/sqlite/test_timetable.py",
    ),
    Mutant(
        "a schedule goes on by a plan that was changed after it was read",
        file="storage/postgres/sql/timetable.sql#timetable_move",
        was=" AND s.revision = v.revision",
        becomes="",
        caught_by="tests/integration/postgres/test_timetable.py",
    ),
    Mutant(
        "what was run without the database is made up for when it is back",
        file="runtime/offline.py",
        was="next_at=self._plans[name].next(at)",
        becomes="next_at=row.next_at",
        caught_by="tests/runtime/test_offline.py::test_it_fires_without_the_database_and_no_occurrence_of_it_is_made_up_for",
    ),
    # --- what people and releases do to it -------------------------------------------------------------------
    Mutant(
        "a frozen schedule fires",
        file="storage/portable/timetable.py",
        was=" and not glance.frozen",
        becomes="",
        caught_by="tests/contract/test_tick.py::test_what_is_frozen_stands_still_until_it_is_thawed",
    ),
    Mutant(
        "a schedule that is frozen during a look fires",
        file="storage/postgres/sql/timetable.sql#timetable_due",
        was="      AND NOT EXISTS (SELECT FROM mainspring.freeze AS f WHERE f.app IN ('', $1))\n",
        becomes="",
        caught_by="tests/integration/postgres/test_timetable.py",
    ),
    Mutant(
        "a pause takes the run that a worker began while it waited",
        file="storage/postgres/sql/timetable.sql#timetable_cancel",
        was="AND $6::boolean AND epoch = 0",
        becomes="AND $6::boolean",
        caught_by="tests/integration/postgres/test_timetable.py",
    ),
    Mutant(
        "the next occurrence cancels a run that was asked for by hand",
        file="storage/sqlite/sql/timetable.sql#timetable_unfinished",
        was="(?3 OR NOT d.manual)",
        becomes="(?3 OR d.manual OR NOT d.manual)",
        caught_by="tests/contract/test_not_begun.py"
        "::test_the_next_occurrence_ends_earlier_ones_of_the_rhythm_and_nothing_that_was_asked_for",
    ),
    Mutant(
        "an older release retires what a newer one declares",
        file="storage/portable/sql/timetable.sql#timetable_standing",
        was="ON s.app = $1 AND s.origin = 'code' AND s.version <= $2",
        becomes="ON s.app = $1 AND s.origin = 'code'",
        caught_by=_DECLARED,
    ),
    Mutant(
        "code retires what an operator has made",
        file="storage/portable/sql/timetable.sql#timetable_standing",
        was="ON s.app = $1 AND s.origin = 'code'",
        becomes="ON s.app = $1",
        caught_by=_DECLARED,
    ),
    Mutant(
        "a schedule is retired while a live worker has it",
        file="storage/portable/sql/timetable.sql#timetable_standing",
        was="s.retired_at IS NULL\n        AND EXISTS (",
        becomes="s.retired_at IS NULL\n        AND NOT EXISTS (",
        caught_by=_DECLARED,
    ),
    Mutant(
        "a worker that was away itself takes all others for gone",
        file="storage/portable/sql/timetable.sql#timetable_standing",
        was="AND judge.since <= NOW($10) - $7::interval",
        becomes="AND judge.since <= NOW($10)",
        caught_by=_DECLARED,
    ),
    Mutant(
        "a retired schedule leaves its waiting copies behind",
        file="storage/portable/timetable.py",
        was="yield from self._cancel(retired, REMOVED, at)",
        becomes="pass",
        caught_by=_DECLARED,
    ),
    Mutant(
        "a schedule is retired in the moment in which its worker restarts",
        file="storage/portable/timetable.py",
        was="retiring = [name for name in gone if name in retire]",
        becomes="retiring = list(gone)",
        caught_by=_DECLARED,
    ),
    Mutant(
        "a worker's block begins before its schedules are declared",
        file="runtime/worker.py",
        was="            await self._scheduler.reconcile()\n",
        becomes="",
        caught_by="tests/integration/app/test_schedules_restart.py"
        "::test_it_is_triggered_in_the_first_line_of_a_workers_block",
    ),
    # --- the clock of a file ---------------------------------------------------------------------------------
    Mutant(
        "the time of a file goes back with its host's",
        file="storage/sqlite/sql/schema.sql#clock_mark",
        was="WHERE at < ?1 - 100000",
        becomes="WHERE ?1 > 0",
        caught_by="tests/integration/sqlite/test_clock.py",
    ),
    Mutant(
        "a file whose time stands still says nothing of it",
        file="storage/sqlite/dialect.py",
        was="if at - host > AHEAD",
        becomes="if host - at > AHEAD",
        caught_by="tests/integration/sqlite/test_mending.py",
    ),
    Mutant(
        "a clock that was corrected by a minute is mended",
        file="storage/sqlite/inspection.py",
        was="if ahead <= AHEAD:\n        return timedelta()",
        becomes="if ahead <= timedelta():\n        return timedelta()",
        caught_by="tests/integration/sqlite/test_mending.py",
    ),
    Mutant(
        "a file that is in use is mended",
        file="storage/sqlite/inspection.py",
        was='        connection.execute("PRAGMA locking_mode = EXCLUSIVE")\n',
        becomes="",
        caught_by="tests/integration/sqlite/test_mending.py",
    ),
    Mutant(
        "the clock of a neighbouring namespace is mended",
        file="storage/sqlite/inspection.py",
        was="_mend(connection, prefix(tables), host())",
        becomes='_mend(connection, prefix("mainspring"), host())',
        caught_by="tests/integration/sqlite/test_mending.py",
    ),
    Mutant(
        "the mending leaves out when a lease ends",
        file="storage/sqlite/inspection.py",
        was='("acquired_at", "renewed_at", "expires_at")',
        becomes='("acquired_at", "renewed_at")',
        caught_by="tests/integration/sqlite/test_mending.py",
    ),
    Mutant(
        "the mending moves when a message was asked for by the right clock",
        file="storage/sqlite/inspection.py",
        was='_BY_IT = " AND published_at > ?2"',
        becomes='_BY_IT = ""',
        caught_by="tests/integration/sqlite/test_mending.py",
    ),
    Mutant(
        "after the mending, what waits for an earlier run waits for ever",
        file="storage/sqlite/inspection.py",
        was="{column} < ?3",
        becomes="{column} <= ?3",
        caught_by="tests/integration/sqlite/test_mending.py",
    ),
    # --- what its runs are told ------------------------------------------------------------------------------
    Mutant(
        "a header about retries counts on a message that no schedule has published",
        file="runtime/handler.py",
        was="        if delivery.schedule is None:\n            return self.retry\n",
        becomes="",
        caught_by="tests/unit/runtime/test_scheduled_runs.py",
    ),
    Mutant(
        "a dead letter of a schedule replaces those of every group",
        file="storage/postgres/sql/verdicts.sql",
        was="                  AND group_name = latest.group_name\n",
        becomes="",
        caught_by="tests/contract/test_repeated_deaths.py",
    ),
    Mutant(
        "a dead letter of a schedule replaces runs that were asked for",
        file="storage/sqlite/sql/verdicts.sql",
        was="AND e.schedule IS NOT NULL AND NOT e.manual AND",
        becomes="AND e.schedule IS NOT NULL AND",
        caught_by="tests/contract/test_repeated_deaths.py",
    ),
    Mutant(
        "what follows an occurrence is stored a second time with it",
        file="storage/portable/timetable.py",
        was="for join in (each.join for each in fresh if",
        becomes="for join in (each.join for each in occurrences if",
        caught_by="tests/contract/test_occurrences.py",
    ),
    Mutant(
        "an occurrence whose condition is not met fires",
        file="runtime/schedules/decisions.py",
        was="    fit = _fitting(plan, due, times) if is_met else _Fit()\n",
        becomes="    fit = _fitting(plan, due, times)\n",
        caught_by="tests/runtime/test_conditions.py",
    ),
]
