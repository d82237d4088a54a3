"""The runtime: verdicts, retries, suspects, declarations, stopping and pruning."""

from __future__ import annotations

from mutants.mutant import Mutant

RAISES = "tests/raising/test_raises.py::test_whatever_a_handler_raises_ends_in_a_verdict"
OVERRUNNING = "tests/raising/test_overrunning.py"
DECLARING = "tests/contract/test_declare_at_once.py"
INTERRUPTS = "tests/raising/test_interrupts.py"
ODD = "tests/raising/test_odd_objects.py"
BUSY = "tests/runtime/test_busy_rows.py"
PRUNE = "tests/contract/test_prune.py"
SUSPECTS = "tests/runtime/test_suspects.py"

_VERDICTS = [
    Mutant(
        "what is no Exception ends the hand that it was raised in",
        file="runtime/verdicts.py",
        was="        return False  # before any access to an object that may be the user's",
        becomes="        return not issubclass(type(error), Exception | CancelledError)",
        caught_by=f"{RAISES}[SystemExit-async]",
    ),
    Mutant(
        "what is no Exception ends the thread that it was raised in",
        file="runtime/offload.py",
        was="except BaseException as raised:",
        becomes="except Exception as raised:",
        caught_by=f"{RAISES}[SystemExit-thread]",
    ),
    Mutant(
        "a coroutine that was returned counts as done",
        file="runtime/verdicts.py",
        was='            refuse_unawaited(result, "the handler")\n',
        becomes="            pass\n",
        caught_by="tests/raising/test_unawaited.py::test_what_was_not_awaited_is_a_failure_that_says_what_to_write",
    ),
    Mutant(
        "a verdict on a locked row is dropped and not kept",
        file="runtime/settler.py",
        was="                self._put_aside(origin, settlement)\n",
        becomes="                self._in_hand.drop(settlement.claim)\n                origin.settled()\n",
        caught_by=f"{BUSY}::test_a_locked_row_keeps_no_other_verdict_waiting",
    ),
    Mutant(
        "a verdict on a locked row keeps its hand",
        file="runtime/settler.py",
        was="            run = self._in_hand.put_aside(settlement.claim)\n            origin.settled()\n",
        becomes="            run = self._in_hand.put_aside(settlement.claim)\n",
        caught_by=f"{BUSY}::test_rows_that_stay_locked_take_no_hand_away",
    ),
    Mutant(
        "a worker reaps what it has put aside itself",
        file="runtime/fetcher.py",
        was="accused=accused, aside=self._in_hand.aside)",
        becomes="accused=accused)",
        caught_by=f"{BUSY}::test_a_verdict_whose_claim_lapsed_under_the_lock_is_written_and_nothing_runs_twice",
    ),
    Mutant(
        "what is put aside keeps the worker from reaping",
        file="runtime/claims_in_hand.py",
        was=" for claim, run in self._runs.items() if claim not in self._aside)",
        becomes=" for run in self._runs.values())",
        caught_by=f"{BUSY}::test_others_who_died_are_reaped_while_a_row_stays_locked",
    ),
    Mutant(
        "a handler's transaction is committed without its verdict while its row is locked",
        file="storage/postgres/mailbox.py",
        was="_PATIENCE, waits=True)\n        return not (answer.lost or answer.gone or answer.busy)",
        becomes="_PATIENCE, waits=False)\n        return not (answer.lost or answer.gone)",
        caught_by="tests/integration/transactional/test_strangers.py",
    ),
    Mutant(
        "one verdict that cannot be written stops all others",
        file="runtime/settler.py",
        was="if not isinstance(error, StorageError) and self._failures < _TRIES:",
        becomes="if not isinstance(error, StorageError):",
        caught_by=f"{ODD}::test_a_verdict_that_cannot_be_written_stops_no_other",
    ),
    Mutant(
        "a verdict is read a second time when it is written",
        file="runtime/verdicts.py",
        was="            return DONE if output is None else Done(_storable(output))",
        becomes="            return result",
        caught_by=f"{ODD}::test_a_verdict_that_answers_otherwise_later_is_written_as_it_was_read",
    ),
    Mutant(
        "an error whose traceback cannot be read leaves its message without a verdict",
        file="runtime/verdicts.py",
        was="    except BaseException as failed:",
        becomes="    except ValueError as failed:",
        caught_by=f"{ODD}::test_an_error_that_cannot_be_looked_at_is_a_failure_like_any_other",
    ),
    Mutant(
        "a class may raise where it is asked for its name",
        file="model/text.py",
        was="str(_QUALNAME(type(error)))",
        becomes="type(error).__qualname__",
        caught_by=f"{ODD}::test_no_metaclass_keeps_an_error_from_being_described",
    ),
]

_INTERRUPTS = [
    Mutant(
        "Ctrl-C is a failure of the message that it hits",
        file="runtime/executor.py",
        was="        interrupted = is_interrupt(error)\n",
        becomes="        interrupted = False\n",
        caught_by=f"{INTERRUPTS}::test_it_comes_out_of_a_bare_loop_and_its_message_is_handed_back",
    ),
    Mutant(
        "a KeyboardInterrupt that code has raised is taken for Ctrl-C",
        file="model/interrupts.py",
        was="    return not _is_raised_by_code(error)",
        becomes="    return True",
        caught_by=f"{INTERRUPTS}::test_it_is_told_from_what_code_raises_itself",
    ),
    Mutant(
        "a KeyboardInterrupt in another thread is taken for Ctrl-C",
        file="model/interrupts.py",
        was=" or current_thread() is not main_thread():",
        becomes=":",
        caught_by=f"{INTERRUPTS}::test_there_is_none_in_another_thread_or_where_the_program_hears_signals",
    ),
    Mutant(
        "the second Ctrl-C under asyncio.run is not heard",
        file="model/interrupts.py",
        was='getattr(function, "__qualname__", None) != _SIGINT_HANDLER',
        becomes="function is not None",
        caught_by=f"{INTERRUPTS}::test_the_second_one_ends_the_program_while_a_handler_computes",
    ),
    Mutant(
        "Ctrl-C is swallowed while the text of an error is asked for",
        file="model/text.py",
        was="        if is_interrupt(error):\n            raise\n",
        becomes="",
        caught_by=f"{INTERRUPTS}::test_it_is_not_taken_for_a_text_that_cannot_be_had",
    ),
]

_OVERRUNS = [
    Mutant(
        "a handler that swallows its cancellation is not cancelled again",
        file="runtime/overruns.py",
        was="        if not self.handler.threaded:\n            run.cancel()\n",
        becomes="",
        caught_by=f"{OVERRUNNING}::test_a_coroutine_that_swallows_its_cancellation_is_cancelled_again",
    ),
    Mutant(
        "a handler that was told to stop has no time to clean up",
        file="runtime/overruns.py",
        was="call_later(PATIENCE, self._stop_again, run, PATIENCE)",
        becomes="call_later(0.01, run.cancel)",
        caught_by=f"{OVERRUNNING}::test_one_that_cleans_up_in_time_is_not_told_again",
    ),
    Mutant(
        "only what ran past its timeout counts as overrunning",
        file="runtime/overruns.py",
        was="if run.stopped_at is None or run.stop_reason is None:",
        becomes='if run.stopped_at is None or run.stop_reason != "timeout":',
        caught_by=f"{OVERRUNNING}::test_a_cancelled_message_whose_handler_goes_on_is_overrunning_too",
    ),
    Mutant(
        "a batch that goes on is not counted as overrunning",
        file="runtime/batch.py",
        was="return list(dict.fromkeys(self._batches.values()))",
        becomes="return []",
        caught_by=f"{OVERRUNNING}::test_a_batch_that_swallows_its_cancellation_is_told_again",
    ),
    Mutant(
        "the hand of a handler that goes on is given away",
        file="runtime/executor.py",
        was="begun = len(self._queue) + len(self._running)",
        becomes="begun = len(self._queue) + sum(run.stop_reason is None for run in self._running)",
        caught_by=f"{OVERRUNNING}::test_its_hand_and_its_claim_are_kept_while_it_goes_on",
    ),
    Mutant(
        "health does not know what goes on overrunning",
        file="app/observe/checks.py",
        was="*_breakers(workers), *_overrunning(workers),",
        becomes="*_breakers(workers),",
        caught_by=f"{OVERRUNNING}::test_health_names_the_one_that_overruns_the_longest",
    ),
    Mutant(
        "health names the one that overruns for the shortest time",
        file="app/observe/checks.py",
        was="for each in worker.overrunning()), key=lambda each: each.since)",
        becomes="for each in worker.overrunning()), key=lambda each: -each.since)",
        caught_by=f"{OVERRUNNING}::test_of_two_that_overrun_health_names_the_one_that_was_told_first",
    ),
    Mutant(
        "a worker is ready though one of its loops has ended",
        file="runtime/service.py",
        was="        self._ended_early = True\n",
        becomes="",
        caught_by=f"{OVERRUNNING}::test_a_worker_with_a_loop_that_has_ended_is_unhealthy",
    ),
]

_DECLARATIONS = [
    Mutant(
        "an older version removes the subscriptions of a newer one",
        file="storage/portable/declarations.py",
        was=" for name, group in known.items() if self.by_group[name].version >= group.version)",
        becomes=" for name, group in known.items())",
        caught_by=f"{DECLARING}::test_an_older_version_removes_nothing_though_the_newer_one_is_gone",
    ),
    Mutant(
        "handler and options of an older version are written over those of a newer one",
        file="storage/portable/declarations.py",
        was="return version > known.version or (version == known.version and described != known.described)",
        becomes="return described != known.described",
        caught_by=f"{DECLARING}::test_handler_and_options_are_those_of_the_newest_version",
    ),
    Mutant(
        "an older version that declares at the same time describes the group",
        file="storage/postgres/sql/workers.sql#declare_groups",
        was=" AND groups.version <= excluded.version",
        becomes="",
        caught_by="tests/integration/postgres/test_declaring.py::"
        "test_an_older_version_that_has_read_before_a_newer_one_wrote_describes_nothing",
    ),
    Mutant(
        "what a live process has declared is pruned",
        file="storage/portable/retention.py",
        was="max(keeps.workers, FORGOTTEN_AFTER)",
        becomes="keeps.workers",
        caught_by=f"{DECLARING}::test_what_a_live_worker_has_declared_is_kept_however_soon_workers_are_forgotten",
    ),
    Mutant(
        "what a live process has declared is pruned in PostgreSQL",
        file="storage/postgres/sql/workers.sql#prune_declarations",
        was="d.seen_at < NOW($3) - $1::interval",
        becomes="d.seen_at <= NOW($3) AND $1::interval IS NOT NULL",
        caught_by=f"{DECLARING}::test_what_a_live_worker_has_declared_is_kept_however_soon_workers_are_forgotten",
    ),
    Mutant(
        "the farewell of one start removes what another has declared",
        file="storage/sqlite/sql/workers.sql#deregister_declared",
        was=" AND start_id = ?2",
        becomes="",
        caught_by=f"{DECLARING}::test_a_farewell_of_one_start_leaves_what_another_of_the_same_name_has_declared",
    ),
    Mutant(
        "after an outage each process takes the others for dead",
        file="storage/postgres/sql/workers.sql#declare_kept",
        was="NOT judge.stands OR d.start_id",
        becomes="d.start_id",
        caught_by=f"{DECLARING}::test_after_an_outage_in_which_all_were_silent_nothing_is_removed",
    ),
    Mutant(
        "a group that was retired is declared again by a worker that goes on",
        file="storage/portable/declarations.py",
        was="if each[0] in known or not self.again)",
        becomes=")",
        caught_by=f"{DECLARING}::test_a_group_that_was_retired_stays_so_until_the_next_start",
    ),
]

_SUSPECTS = [
    Mutant(
        "there is no probation",
        file="runtime/claims_in_hand.py",
        was="return PROBATION if ran is None else max(PROBATION - ran, 0.0)",
        becomes="return 0.0",
        caught_by=f"{SUSPECTS}::test_a_suspect_on_probation_is_the_only_one_of_its_group_and_no_other_group_waits_for_it",
    ),
    Mutant(
        "a suspect that another process settled blocks the process that claimed it until it would have lapsed",
        file="app/queue/queue.py",
        was="            if found is None or found.owner != each.owner:\n",
        becomes="            if found is not None and found.owner != each.owner:\n",
        caught_by="tests/unit/app/test_queue_tokens.py"
        "::test_a_suspect_that_another_process_settled_lets_the_next_one_come_after_a_second",
    ),
    Mutant(
        "suspects in hand are looked up at every reap",
        file="app/consume/queue_registry.py",
        was="each.checked + _CHECK_EVERY <= now < each.lapses",
        becomes="now < each.lapses",
        caught_by="tests/unit/app/test_queue_tokens.py"
        "::test_a_suspect_that_another_process_settled_lets_the_next_one_come_after_a_second",
    ),
    Mutant(
        "one that has cost a process runs beside other suspects",
        file="runtime/claims_in_hand.py",
        was="    if suspect.deaths > 0:\n        return FOREVER\n",
        becomes="",
        caught_by=f"{SUSPECTS}::test_no_suspect_is_taken_while_one_runs_that_has_cost_a_process",
    ),
    Mutant(
        "one that would die of it is reaped beside other suspects",
        file="runtime/fetcher.py",
        was="accused = self._clock.monotonic(), not self._in_hand.holds_suspects",
        becomes="accused = self._clock.monotonic(), True",
        caught_by=f"{SUSPECTS}::test_one_that_has_cost_a_process_is_not_taken_while_other_suspects_run",
    ),
    Mutant(
        "a death is charged to who was never suspected in PostgreSQL",
        file="storage/postgres/sql/claims.sql#reap",
        was="deaths = d.deaths + d.suspect::integer",
        becomes="deaths = d.deaths + 1",
        caught_by="tests/contract/test_reap.py::test_only_a_suspect_dies",
    ),
    Mutant(
        "a death is charged to who was never suspected in SQLite",
        file="storage/sqlite/sql/claims.sql#reap_hold",
        was="deaths = deaths + suspect,",
        becomes="deaths = deaths + 1,",
        caught_by="tests/contract/test_reap.py::test_only_a_suspect_dies",
    ),
    Mutant(
        "a suspect is buried one death too early",
        file="runtime/verdicts.py",
        was="if delivery.deaths >= deaths:",
        becomes="if delivery.deaths >= deaths - 1:",
        caught_by="tests/runtime/test_trouble.py::test_a_suspect_that_has_not_died_often_enough_is_run",
    ),
    Mutant(
        "a suspect is buried one death too late",
        file="runtime/verdicts.py",
        was="if delivery.deaths >= deaths:",
        becomes="if delivery.deaths > deaths:",
        caught_by="tests/runtime/test_trouble.py::test_a_suspect_that_dies_too_often_is_buried_unread",
    ),
]

_RETRIES = [
    Mutant(
        "a message is tried one time more than its policy says",
        file="timing/backoff.py",
        was="        if attempt >= attempts:\n",
        becomes="        if attempt > attempts:\n",
        caught_by="tests/unit/timing/test_backoff.py",
    ),
    Mutant(
        "a message is dead one attempt too early",
        file="timing/backoff.py",
        was="return delays[attempt - 1] if attempt <= len(delays) else None",
        becomes="return delays[attempt - 1] if attempt < len(delays) else None",
        caught_by="tests/unit/timing/test_backoff.py",
    ),
    Mutant(
        "a failure is tried again at once",
        file="runtime/verdicts.py",
        was="Bury(failure) if delay is None else Retry(delay, failure)",
        becomes="Bury(failure) if delay is None else Retry(timedelta(), failure)",
        caught_by="tests/runtime/test_delivering.py::"
        "test_a_failure_is_tried_again_when_its_time_has_come_and_every_error_is_kept",
    ),
    Mutant(
        "what is handed back has used up an attempt",
        file="storage/sqlite/verdicts.py",
        was="case Release(delay):\n                yield from self._hand_back(row, delay, took, forgive=1)",
        becomes="case Release(delay):\n                yield from self._hand_back(row, delay, took, forgive=0)",
        caught_by="tests/contract/test_settle.py",
    ),
    Mutant(
        "a pause of the circuit breaker never ends in a probe",
        file="timing/breaker.py",
        was='return 0 if self.state == "open" else 1',
        becomes="return 0",
        caught_by="tests/unit/timing/test_breaker.py",
    ),
]

_STOPPING = [
    Mutant(
        "a drained worker claims",
        file="runtime/fetcher.py",
        was="        if self._drains:\n            if",
        becomes="        if False:\n            if",
        caught_by="tests/runtime/test_draining.py::test_a_draining_worker_reaps_nothing_either",
    ),
    Mutant(
        "a stop does not hand back what has not begun",
        file="runtime/shutdown.py",
        was="                executor.release_waiting()\n            await within(",
        becomes="                pass\n            await within(",
        caught_by="tests/runtime/test_batch_ends.py::test_stopping_hands_back_what_gathers_and_lets_what_runs_finish",
    ),
    Mutant(
        "what a claim brings after the stop has begun is run",
        file="runtime/fetcher.py",
        was="        if self._stopping:\n            executor.release_waiting()\n",
        becomes="",
        caught_by="tests/runtime/test_stopping.py::test_what_a_claim_brings_that_was_on_its_way_is_handed_back",
    ),
    Mutant(
        "what a stop has cancelled counts as failed",
        file="runtime/executor.py",
        was="                return verdict or Release()\n",
        becomes="                return verdict or self._failed(run, verdicts.overdue(timedelta()))\n",
        caught_by="tests/runtime/test_stopping.py::test_after_the_grace_handlers_are_cancelled_and_released_without_an_attempt",
    ),
]

_RETENTION = [
    Mutant(
        "a chore of pruning that fails stops the others",
        file="runtime/janitor.py",
        was="                failure = failure or error\n",
        becomes="                raise\n",
        caught_by="tests/runtime/test_duties.py::test_a_chore_that_fails_stops_no_other_and_is_told",
    ),
    Mutant(
        "failed runs are pruned with those that succeeded",
        file="storage/portable/retention.py",
        was='("done", "snoozed", "cancelled")',
        becomes='("done", "snoozed", "cancelled", "failed")',
        caught_by=f"{PRUNE}::test_runs_that_failed_go_after_their_own_time",
    ),
    Mutant(
        "dead letters are pruned a moment too early in PostgreSQL",
        file="storage/postgres/sql/prune.sql",
        was="WHERE $4::text IS NULL AND r.{column} < ",
        becomes="WHERE $4::text IS NULL AND r.{column} <= ",
        caught_by=f"{PRUNE}::test_dead_letters_are_kept_for_ever_unless_a_time_is_given",
    ),
    Mutant(
        "the errors of a dead letter are pruned in SQLite",
        file="storage/sqlite/sql/prune.sql#prune_runs_read",
        was="SELECT 1 FROM mainspring_dead AS d WHERE d.message_id = r.message_id AND d.group_name = r.group_name",
        becomes="SELECT 1 WHERE 0",
        caught_by=f"{PRUNE}::test_runs_of_what_is_not_over_are_kept_whatever_their_age",
    ),
    Mutant(
        "a message of the inbox that is being processed is pruned",
        file="storage/postgres/sql/prune.sql#prune_inbox",
        was="WHERE i.status <> 'processing'\n      AND ",
        becomes="WHERE ",
        caught_by="tests/contract/test_inbox.py::test_what_is_over_is_forgotten_after_its_time",
    ),
]

MUTANTS: list[Mutant] = [
    *_VERDICTS,
    *_INTERRUPTS,
    *_OVERRUNS,
    *_DECLARATIONS,
    *_SUSPECTS,
    *_RETRIES,
    *_STOPPING,
    *_RETENTION,
]
