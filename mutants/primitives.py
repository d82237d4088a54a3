"""Inbox, leases, callers' transactions, transactional consumers and wake-ups; memory."""

from __future__ import annotations

from mutants.mutant import Mutant

_HOLDERS = "tests/contract/test_holders.py"
_AWAITED_BLOCK = (
    "tests/integration/app/test_inbox.py::test_what_an_awaited_block_says_in_a_transaction_counts_if_that_commits"
)
_COMMITTED = "tests/integration/testing/test_committed.py"
_KIT = "tests/unit/testing"
_LEASES = "tests/integration/app/test_leases.py"
_HANDLES = "tests/integration/handles"
_TRANSACTIONAL = "tests/integration/transactional"
_MEMORY = "tests/unit/storage/test_memory.py"
_PAGES = "tests/integration/app/test_pages.py"

INBOX: list[Mutant] = [
    Mutant(
        "an inbox mark does not ask who was let in",
        file="storage/portable/sql/inbox.sql#inbox_mark",
        was="coalesce(MICROS(changed_at) = $8::bigint, true)",
        becomes="coalesce($8::bigint, 0) IS NOT NULL",
        caught_by=f"{_HOLDERS}::test_nobody_but_who_was_let_in_says_what_became_of_a_message",
    ),
    Mutant(
        "an inbox mark of an earlier attempt overrules a later one",
        file="storage/portable/sql/inbox.sql#inbox_mark",
        was="AND attempts = $4",
        becomes="AND attempts >= $4",
        caught_by="tests/contract/test_inbox.py::test_who_was_frozen_cannot_overrule_who_came_later",
    ),
    Mutant(
        "an inbox mark counts before its transaction has committed",
        file="app/inbox.py",
        was="""\
            ours = await self._transactions.run(tx, script, f"inbox.{call}")
            if block in self._blocks:
                self._blocks[block] = True""",
        becomes="""\
            ours = await self._transactions.run(tx, script, f"inbox.{call}")
            self._blocks.pop(block, None)""",
        caught_by=_AWAITED_BLOCK,
    ),
    Mutant(
        "an inbox mark is written outside its transaction",
        file="app/inbox.py",
        was="        if tx is not None:\n            script = self._transactions",
        becomes="        if False:\n            script = self._transactions",
        caught_by=_AWAITED_BLOCK,
    ),
    Mutant(
        "a message of the inbox is let in again too early",
        file="storage/postgres/migrations/0008_inbox.sql",
        was="known.changed_at <= moment - $6",
        becomes="known.changed_at <= moment - $6 + interval '1 microsecond'",
        caught_by="tests/contract/test_inbox.py::test_who_has_been_at_it_for_too_long_is_followed_by_another",
    ),
    Mutant(
        "a message of the inbox is let in again too late",
        file="model/inbox.py",
        was="known.changed_at <= now - retry_after",
        becomes="known.changed_at < now - retry_after",
        caught_by="tests/contract/test_inbox.py::test_who_has_been_at_it_for_too_long_is_followed_by_another",
    ),
    Mutant(
        "a message that is let in again goes under the time of its first admission",
        file="storage/postgres/coordination.py",
        was="admitted_at=_instant(at)",
        becomes="admitted_at=_instant(since)",
        caught_by=f"{_HOLDERS}::test_who_is_let_in_again_is_known_by_its_own_time",
    ),
]

LEASES: list[Mutant] = [
    Mutant(
        "a message of the inbox is marked as dead beside the caller's transaction",
        file="app/inbox.py",
        was='"dead", error, attempt, group), tx, "dead")',
        becomes='"dead", error, attempt, group), None, "dead")',
        caught_by="tests/integration/handles/test_every_call.py",
    ),
    Mutant(
        "a lease is renewed after it was lost",
        file="storage/postgres/sql/leases.sql#lease_renew",
        was="AND holder = hold.holder AND expires_at > clock.now",
        becomes="AND holder = hold.holder",
        caught_by="tests/contract/test_leases.py::test_a_lease_that_ran_out_is_lost_even_if_nobody_took_it",
    ),
    Mutant(
        "a hold of another is taken for renewed",
        file="storage/postgres/sql/leases.sql#lease_renew",
        was="(hold.name, hold.epoch, hold.holder) NOT IN (SELECT held.name, held.epoch, held.holder FROM held)",
        becomes="(hold.name, hold.epoch) NOT IN (SELECT held.name, held.epoch FROM held)",
        caught_by=f"{_HOLDERS}::test_two_holds_of_one_epoch_are_told_apart_in_one_batch",
    ),
    Mutant(
        "a lease is confirmed to one who does not hold it",
        file="storage/portable/sql/leases.sql#lease_confirm",
        was="AND holder = $3",
        becomes="AND $3::text IS NOT NULL",
        caught_by=f"{_HOLDERS}::test_nobody_but_its_holder_renews_confirms_or_releases_a_lease",
    ),
    Mutant(
        "a lease is released by another holder",
        file="storage/portable/sql/leases.sql#lease_release",
        was="AND holder = $3",
        becomes="AND $3::text IS NOT NULL",
        caught_by=f"{_HOLDERS}::test_nobody_but_its_holder_renews_confirms_or_releases_a_lease",
    ),
    Mutant(
        "a fan-out is planned under the lease of another",
        file="storage/portable/coordination.py",
        was='self._sql.opening("lease_confirm", *batch.hold, at)',
        becomes='self._sql.opening("lease_find", batch.hold.name, at)',
        caught_by=f"{_HOLDERS}::test_nothing_is_planned_under_the_lease_of_another",
    ),
    Mutant(
        "a confirmed lease goes to the next holder before the commit",
        file="storage/portable/sql/leases.sql#lease_confirm",
        was="LOCK_KEY()",
        becomes="-- without a lock",
        caught_by="tests/integration/postgres/test_leases.py"
        "::test_while_a_transaction_has_confirmed_it_nobody_else_acquires_it",
    ),
    Mutant(
        "the epoch of a lease does not grow",
        file="storage/postgres/sql/leases.sql#lease_acquire",
        was="ELSE greatest(mainspring.next_lease_epoch(), l.epoch + 1)",
        becomes="ELSE l.epoch",
        caught_by="tests/contract/test_leases.py::test_a_lease_that_ran_out_is_acquired_under_a_greater_epoch",
    ),
    Mutant(
        "the epoch of a lease begins again where its row was removed",
        file="storage/sqlite/sql/leases.sql#lease_count",
        was="SET last = last + 1",
        becomes="SET last = 1",
        caught_by="tests/contract/test_leases.py::test_the_epoch_grows_even_where_the_row_was_removed_in_between",
    ),
    Mutant(
        "the epoch of a lease goes back with a promoted standby",
        file="storage/postgres/migrations/0018_failover.sql",
        was="RETURN ((timeline - 1) << 32) + nextval",
        becomes="RETURN nextval",
        caught_by="tests/faults/test_failover.py",
    ),
    Mutant(
        "an acquired lease lasts longer here than in the database",
        file="app/lease/leases.py",
        was="request.ttl, sent, self.clock, request",
        becomes="request.ttl, self.clock.elapsed(), self.clock, request",
        caught_by=f"{_LEASES}::test_its_time_counts_from_the_request_however_long_the_reply_takes",
    ),
    Mutant(
        "a renewed lease lasts longer here than in the database",
        file="runtime/lease_keeper.py",
        was="each.renewed(sent)",
        becomes="each.renewed(self._clock.elapsed())",
        caught_by="tests/unit/runtime/test_lease_keeper.py"
        "::test_a_renewal_counts_from_when_it_was_sent_however_long_the_reply_takes",
    ),
]

TRANSACTIONS: list[Mutant] = [
    Mutant(
        "a publish in a caller's transaction commits it",
        file="storage/enlisted/sqlite.py",
        was="            return rows(self._cursor, statement)\n        except sqlite3.ProgrammingError",
        becomes="""\
            answer = rows(self._cursor, statement)
            self._cursor.connection.commit()
            return answer
        except sqlite3.ProgrammingError""",
        caught_by="tests/integration/sqlite/test_joined.py::test_rolled_back_with_the_callers_own_writes",
    ),
    Mutant(
        "a publish in a session goes over another connection",
        file="storage/enlisted/sqlalchemy.py",
        was="self._handle.connection()",
        becomes="self._handle.get_bind().connect()",
        caught_by=f"{_HANDLES}/test_matrix.py::test_nothing_is_seen_before_the_commit",
    ),
    Mutant(
        "a connection that commits every statement is joined",
        file="storage/enlisted/psycopg.py",
        was="if connection.autocommit and status == TransactionStatus.IDLE:",
        becomes="if connection.autocommit and status == TransactionStatus.UNKNOWN:",
        caught_by=f"{_HANDLES}/test_autocommit.py",
    ),
    Mutant(
        "what a caller's connection makes of values reaches our answers",
        file="storage/enlisted/psycopg.py",
        was="cursor = _Cursor(self._connection, row_factory=tuple_row)",
        becomes="cursor = psycopg.RawCursor(self._connection, row_factory=tuple_row)",
        caught_by=f"{_HANDLES}/test_codecs.py",
    ),
    Mutant(
        "a publish that is rolled back wakes workers",
        file="storage/enlisted/django.py",
        was="handle.on_commit(self._committed, robust=True)",
        becomes="self._committed()",
        caught_by=f"{_HANDLES}/test_after_commit.py::test_a_rollback_and_a_commit_of_nothing_are_not_told",
    ),
    Mutant(
        "a note of a transaction that was rolled back is told at the next commit",
        file="storage/enlisted/sqlalchemy.py",
        was="meant = transaction is not None and transaction.is_active",
        becomes="meant = True",
        caught_by=f"{_HANDLES}/test_after_commit.py::test_a_rollback_and_a_commit_of_nothing_are_not_told",
    ),
    Mutant(
        "a commit that publishes wakes no worker",
        file="storage/enlisted/sqlalchemy.py",
        was="            note(connection, self._committed)\n",
        becomes="",
        caught_by=f"{_HANDLES}/test_after_commit.py::test_a_commit_is_told_once_and_when_everybody_can_see_it",
    ),
    Mutant(
        "a test runs what was committed before it",
        file="testing/transaction.py",
        was="return [view for view in views if view.message_id in ours]",
        becomes="return list(views) if ours is not None else []",
        caught_by=f"{_COMMITTED}::test_what_was_committed_before_is_neither_run_nor_shown",
    ),
    Mutant(
        "a test takes an error that a driver suppresses for success",
        file="testing/transaction.py",
        was="async with NonSuppressing(manager):",
        becomes="async with manager:",
        caught_by="tests/integration/testing/test_connections.py",
    ),
    Mutant(
        "a test runs a group that its breaker has paused",
        file="testing/services.py",
        was="room = min(group.executor.free, group.size)",
        becomes="room = group.size",
        caught_by=f"{_KIT}/test_hooks.py::test_a_breaker_trips_and_recovers_by_the_kits_clock",
    ),
    Mutant(
        "a test keeps an executor by the real clock",
        file="testing/services.py",
        was="            timers=clock,\n",
        becomes="",
        caught_by=f"{_KIT}/test_time.py::test_a_handler_that_takes_too_long_times_out_without_waiting",
    ),
    Mutant(
        "what comes due in a test while a handler runs finds it finished",
        file="testing/services.py",
        was="            await self._tick_since(began)\n",
        becomes="",
        caught_by=f"{_KIT}/test_schedule_policies.py::test_what_came_due_while_a_handler_ran_met_it_running",
    ),
    Mutant(
        "a handler that ends a test has failed an attempt",
        file="testing/calls.py",
        was="                run.ask_to_stop(STOP_SHUTDOWN)\n",
        becomes="",
        caught_by=f"{_KIT}/test_time.py::test_a_handler_that_waits_for_ever_fails_the_test_and_stays_pending",
    ),
    Mutant(
        "what a late handler of a test has written stays",
        file="testing/calls.py",
        was="            raise _late(run)\n",
        becomes="            return\n",
        caught_by="tests/integration/transactional/test_in_tests.py"
        "::test_a_handler_that_returns_after_its_timeout_leaves_only_its_failure_behind",
    ),
    Mutant(
        "variables that a handler sets reach the next one",
        file="runtime/executor.py",
        was="result = await in_own_context(perform if around is None else partial(around, run, perform))",
        becomes="result = await (perform() if around is None else around(run, perform))",
        caught_by=f"{_KIT}/test_services.py::test_variables_that_a_handler_sets_do_not_reach_the_next_run",
    ),
    Mutant(
        "a test runs what others commit beside it",
        file="storage/postgres/sql/ledger.sql#own",
        was="= 'in progress'",
        becomes="<> 'aborted'",
        caught_by=f"{_COMMITTED}::test_what_others_commit_while_the_test_runs_is_not_run_either",
    ),
]

HANDLERS: list[Mutant] = [
    Mutant(
        "a copy of the app's SQLite file is taken for its own",
        file="storage/enlisted/errors.py",
        was="        if self._shown in files or any(map(self._is, filter(None, files))):\n",
        becomes="        if self._shown in files or any(files):\n",
        caught_by="tests/integration/handles/test_other_files.py",
    ),
    Mutant(
        "an attached file of the app counts for nothing",
        file="storage/enlisted/errors.py",
        was='execute(_FILES) if name != "temp"]',
        becomes='execute(_FILES) if name == "main"]',
        caught_by="tests/integration/handles/test_other_files.py",
    ),
    Mutant(
        "a session on another SQLite file is accepted",
        file="storage/enlisted/sqlalchemy.py",
        was="            file.refuse_others(lambda statement: _rows(connection, statement))\n",
        becomes="",
        caught_by="tests/integration/handles/test_other_files.py",
    ),
    Mutant(
        "a handler's effects are committed although its claim is lost",
        file="app/transaction/consumers.py",
        was="    if ours:\n",
        becomes="    if ours is not None:\n",
        caught_by=f"{_TRANSACTIONAL}/test_together.py::test_who_has_lost_its_claim_is_undone",
    ),
    Mutant(
        "a handler's effects are committed although another has settled its message",
        file="storage/postgres/mailbox.py",
        was="return not (answer.lost or answer.gone or answer.busy)",
        becomes="return not (answer.lost or answer.busy)",
        caught_by=f"{_TRANSACTIONAL}/test_together.py::test_who_finds_its_message_settled_by_another_is_undone",
    ),
    Mutant(
        "a handler that raises is committed",
        file="storage/sqlite/lender.py",
        was='await loan.end("ROLLBACK")',
        becomes='await loan.end("COMMIT")',
        caught_by=f"{_TRANSACTIONAL}/test_together.py::test_who_gives_up_leaves_no_effect",
    ),
    Mutant(
        "what a handler publishes leaves its transaction",
        file="app/consume/context.py",
        was='        options["tx"] = run.tx\n',
        becomes="",
        caught_by=f"{_TRANSACTIONAL}/test_together.py::test_who_gives_up_leaves_no_effect",
    ),
    Mutant(
        "a settle changes how long its caller's session waits for locks",
        file="storage/postgres/sql/verdicts.sql#settle_wait",
        was="SELECT set_config('lock_timeout', bounded.was, true)",
        becomes="SELECT set_config('lock_timeout', bounded.now, true)",
        caught_by="tests/integration/postgres/test_claiming.py"
        "::test_a_handlers_verdict_waits_for_seconds_at_the_most_and_leaves_no_setting_behind",
    ),
    Mutant(
        "a message that failed in its batch is settled as done",
        file="runtime/batch.py",
        was="        if isinstance(answer, BaseException):\n            return self._broken(run, answer)",
        becomes="        if isinstance(answer, BaseException):\n            answer = None",
        caught_by="tests/runtime/test_batches.py",
    ),
    Mutant(
        "a message that failed in the transaction of its batch is settled as done",
        file="app/transaction/consumers.py",
        was="return verdicts.of_error(answer, run.delivery, policy, took, run.handler.newer_wait)",
        becomes="return verdicts.of_result(None)",
        caught_by=f"{_TRANSACTIONAL}/test_batches.py",
    ),
]

BELLS: list[Mutant] = [
    Mutant(
        "an idle worker does not arm the bell",
        file="runtime/wakeup.py",
        was="            await self._doorbell.arm(groups)\n",
        becomes="",
        caught_by="tests/runtime/test_wakeup.py",
    ),
    Mutant(
        "an idle worker does not look again after it has armed the bell",
        file="runtime/wakeup.py",
        was="            return 0.0, True",
        becomes="            return await self._until_next(now, groups), True",
        caught_by="tests/runtime/test_wakeup.py",
    ),
    Mutant(
        "a bell that was disarmed is never armed again",
        file="storage/postgres/sql/workers.sql#bell_arm",
        was="DO UPDATE SET armed_until = excluded.armed_until",
        becomes="DO NOTHING",
        caught_by="tests/integration/postgres/test_strangers.py::test_bells_are_armed_and_disarmed_while_one_is_locked",
    ),
    Mutant(
        "a bell rung in a transaction keeps it from being prepared",
        file="storage/postgres/migrations/0021_two_phase.sql",
        was="current_setting('max_prepared_transactions')::integer > 0",
        becomes="false",
        caught_by="tests/integration/postgres/test_two_phase.py",
    ),
]

MEMORY = [
    Mutant(
        "what a failed script has written stays in memory until the next one",
        file="storage/memory.py",
        was="        except BaseException:\n            connection.rollback()\n            raise\n",
        becomes="        except BaseException:\n            raise\n",
        caught_by=f"{_MEMORY}::test_a_script_that_fails_leaves_nothing_behind",
    ),
    Mutant(
        "threads do not take turns in memory",
        file="storage/memory.py",
        was="            with self._lock:\n                self._thread = threading.get_ident()\n",
        becomes="            with threading.Lock():\n                self._thread = threading.get_ident()\n",
        caught_by=f"{_MEMORY}::test_a_script_waits_for_that_of_another_thread",
    ),
    Mutant(
        "memory rings for groups that have nothing new",
        file="storage/memory.py",
        was='self.dialect("bell_groups", last_seq)',
        becomes='self.dialect("bell_groups", 0)',
        caught_by=f"{_MEMORY}::test_a_bell_rings_once_for_each_group_and_not_for_claims",
    ),
]

LISTS: list[Mutant] = [
    Mutant(
        "a page ends the list although there is one more row",
        file="app/page.py",
        was="if len(rows) > limit else None",
        becomes="if len(rows) > limit + 1 else None",
        caught_by=f"{_PAGES}::test_following_the_cursors_gives_every_row_once",
    ),
    Mutant(
        "a cursor of another call is accepted",
        file="app/page.py",
        was="if call == self._call:",
        becomes="if call:",
        caught_by=f"{_PAGES}::test_a_cursor_is_of_one_call",
    ),
    Mutant(
        "a page of the inbox leaves out what changed at the same instant",
        file="storage/portable/sql/inbox.sql",
        was="(message_id, source, group_name) > ($8::text, $9::text, $10::text)",
        becomes="(message_id, source, group_name) > ($8::text, $9::text, $10::text) AND false",
        caught_by=f"{_PAGES}::test_following_the_cursors_gives_every_row_once",
    ),
    Mutant(
        "a page of failures leaves out what ended at the same instant",
        file="storage/portable/sql/ledger.sql",
        was="finished_at < $2 OR id < $3::bigint",
        becomes="finished_at < $2 OR id < $3::bigint AND false",
        caught_by=f"{_PAGES}::test_following_the_cursors_gives_every_row_once",
    ),
]

MUTANTS: list[Mutant] = [*INBOX, *LEASES, *TRANSACTIONS, *HANDLERS, *BELLS, *MEMORY, *LISTS]
