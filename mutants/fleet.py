"""One app on many databases: where code runs, which databases are served, and at what cost to the others."""

from __future__ import annotations

from mutants.mutant import Mutant

HANDLERS = "tests/integration/fleet/test_handlers.py"
DISCOVERY = "tests/integration/fleet/test_discovery.py"
PUBLISHING = "tests/integration/fleet/test_publishing.py"
THOUSAND = "tests/integration/fleet/test_thousand.py"
FLAPS = "tests/faults/test_fleet.py::test_databases_that_are_named_badly_lose_nothing_and_work_in_hand_is_finished"
WORKER = "tests/integration/fleet/test_worker.py"
CONNECTIONS = "tests/integration/fleet/test_connections.py"
SHARES = "tests/integration/fleet/test_shares.py"
ORDER = "tests/integration/fleet/test_order.py"
SCOPE = "tests/integration/fleet/test_scope.py"
OUTLOOK = "tests/contract/test_outlook.py"
COMMANDS = "tests/integration/cli/test_fleet.py"
COMMAND_WORKER = "tests/integration/cli/test_fleet_worker.py"
DASHBOARD = "tests/dashboard/test_fleet.py"
ACCESS = "tests/dashboard/test_fleet_access.py"
METRICS = "tests/integration/fleet/test_metrics.py"

MUTANTS: list[Mutant] = [
    Mutant(
        "the worker of a member does not say where it runs",
        file="app/fleet/member.py",
        was="        context.run(HERE.set, self.place)\n",
        becomes="",
        caught_by=f"{HANDLERS}::test_an_intake_is_rejected_since_nothing_names_its_database "
        f"{HANDLERS}::test_a_coroutine_stays_in_its_database",
    ),
    Mutant(
        "a member of a fleet is the database of the handler that uses it",
        file="app/mainspring.py",
        was="        if self._leads and (place := HERE.get())",
        becomes="        if (place := HERE.get())",
        caught_by=f"{HANDLERS}::test_a_handler_may_publish_to_another_database_of_its_fleet",
    ),
    Mutant(
        "another app in a handler is on the database of the handler",
        file="app/mainspring.py",
        was=" and place.code is self._code:",
        becomes=":",
        caught_by=f"{HANDLERS} {PUBLISHING}",
    ),
    Mutant(
        "a transaction of another database than is named is accepted",
        file="app/fleet/router.py",
        was="        if named not in found:",
        becomes="        if named is None:",
        caught_by=PUBLISHING,
    ),
    Mutant(
        "two names of one database are two databases",
        file="app/fleet/databases.py",
        was="                _refuse_namesake(checked, address, owners)\n",
        becomes="",
        caught_by=f"{PUBLISHING} {DISCOVERY}",
    ),
    Mutant(
        "a function that fails leaves no databases",
        file="app/fleet/databases.py",
        was="        self.trouble = why",
        becomes="        self.trouble, self.addresses = why, {}",
        caught_by=DISCOVERY,
    ),
    Mutant(
        "a look at a server that never answers keeps its place",
        file="app/fleet/turns.py",
        was="call_later(_HANGS_AFTER, turn.end)",
        becomes="call_later(20 * _HANGS_AFTER, turn.end)",
        caught_by=f"{WORKER}::test_a_server_that_never_answers_delays_neither_the_others_nor_the_end",
    ),
    Mutant(
        "a database whose server is dead keeps its turn",
        file="app/fleet/worker.py",
        was="                await self._ping()",
        becomes="                pinged_at = now",
        caught_by=f"{WORKER}::test_a_worker_whose_server_dies_with_work_in_hand_ends_all_the_same",
    ),
    Mutant(
        "a database with a held lease is closed when it is not used",
        file="app/fleet/member.py",
        was="    return is_held or ",
        becomes="    return ",
        caught_by=PUBLISHING,
    ),
    Mutant(
        "a database is closed between its opening and the call that it was opened for",
        file="app/fleet/member.py",
        was=" and not self.connection.awaited and ",
        becomes=" and ",
        caught_by=PUBLISHING,
    ),
    Mutant(
        "any number of databases is looked at at a time",
        file="app/fleet/turns.py",
        was="        self._looks = asyncio.Semaphore(_LOOKS)",
        becomes="        self._looks = asyncio.Semaphore(10_000)",
        caught_by=THOUSAND,
    ),
    Mutant(
        "a database is declared at every look",
        file="app/fleet/worker.py",
        was="                if self._tended_at is None or time.monotonic()",
        becomes="                if True or time.monotonic()",
        caught_by=THOUSAND,
    ),
    Mutant(
        "what is in hand is cancelled where a database is gone",
        file="app/fleet/worker.py",
        was="        self._woken.set()\n        if self._running is not None:",
        becomes="        self.task.cancel()\n        if self._running is not None:",
        caught_by=FLAPS,
    ),
    Mutant(
        "a claim that has lapsed is nothing to do",
        file="storage/postgres/sql/workers.sql#outlook",
        was="AND d.held_by IS NOT NULL",
        becomes="AND d.held_by IS NOT NULL AND false",
        caught_by=OUTLOOK,
    ),
    Mutant(
        "a database of a fleet has as many connections as an app of its own",
        file="app/fleet/member.py",
        was="exported=False, sparing=True,",
        becomes="exported=False,",
        caught_by=f"{CONNECTIONS}::test_a_database_that_works_has_two_connections_or_three",
    ),
    Mutant(
        "each turn at a database declares again what its fleet has declared",
        file="app/fleet/worker.py",
        was="            self.member.place.is_tended = True\n",
        becomes="",
        caught_by=f"{CONNECTIONS}::test_its_worker_declares_nothing_that_the_fleet_has_declared",
    ),
    Mutant(
        "a command that fails in one database ends for all",
        file="cli/databases.py",
        was="            except Exception as error:  # noqa: BLE001",
        becomes="            except ZeroDivisionError as error:  # noqa: BLE001",
        caught_by=f"{COMMANDS}::test_a_failure_stops_no_other_and_the_end_says_how_to_repeat_it",
    ),
    Mutant(
        "the command to repeat is for all databases",
        file="cli/databases.py",
        was="again(None if all_failed else failed)",
        becomes="again(None)",
        caught_by=f"{COMMANDS}::test_a_failure_stops_no_other_and_the_end_says_how_to_repeat_it",
    ),
    Mutant(
        "what a command prints for several databases is mixed",
        file="cli/capture.py",
        was="self._stream if capture is None else",
        becomes="self._stream if True else",
        caught_by=f"{COMMANDS}::test_a_command_runs_on_every_database_in_the_order_of_the_fleet",
    ),
    Mutant(
        "a command over several databases begins before it is confirmed",
        file="cli/databases.py",
        was=' and not command.given("yes"):',
        becomes=" and False:",
        caught_by=f"{COMMANDS}::test_over_several_databases_a_confirmation_has_to_be_given_before",
    ),
    Mutant(
        "a cursor of one database continues the lists of all",
        file="cli/databases.py",
        was='    if command.given("cursor"):',
        becomes="    if False:",
        caught_by=f"{COMMANDS}::test_a_mistake_is_reported_with_what_to_type",
    ),
    Mutant(
        "only the first database gets what is read from stdin",
        file="cli/options.py",
        was="@functools.cache  # a command on several databases reads it for each\n",
        becomes="",
        caught_by=f"{COMMANDS}::test_a_payload_from_stdin_reaches_every_database",
    ),
    Mutant(
        "a command proposed for one database is for all",
        file="cli/target.py",
        was="typed(self.database if one is None else (one,))",
        becomes="typed(self.database)",
        caught_by=f"{COMMAND_WORKER}::test_a_fleet_on_postgresql_is_migrated_worked_and_looked_at",
    ),
    Mutant(
        "a pattern among several names chooses nothing",
        file="app/fleet/databases.py",
        was="any(is_pattern(each) and ",
        becomes="any(False and ",
        caught_by=f"{COMMANDS}::test_databases_of_a_function_are_chosen_by_name_and_pattern",
    ),
    Mutant(
        "an idle database of a fleet is unwell for want of a worker",
        file="cli/doctor.py",
        was="    if DATABASE.get() is not None:",
        becomes="    if False:",
        caught_by=f"{COMMANDS}::test_health_has_a_line_for_each_database_and_the_checks_of_the_fleet",
    ),
    Mutant(
        "a process of several does not know which databases it serves",
        file="cli/workers.py",
        was="    chosen += [word for database in target.database ",
        becomes="    chosen += [word for database in () ",
        caught_by=f"{COMMAND_WORKER}::test_every_process_of_several_serves_the_chosen_databases",
    ),
    Mutant(
        "a worker of a name that no database has waits for ever",
        file="cli/workers.py",
        was="            await replace(target, database=named).names(fleet)",
        becomes="            pass",
        caught_by=f"{COMMAND_WORKER}::test_a_mistake_is_reported_with_what_to_type",
    ),
    Mutant(
        "a worker of a fleet migrates nothing first",
        file="app/fleet/service.py",
        was="        if migrate:",
        becomes="        if False:",
        caught_by=f"{COMMAND_WORKER}::test_a_fleet_on_postgresql_is_migrated_worked_and_looked_at",
    ),
    Mutant(
        "doctor says of each database what is alike in all",
        file="app/fleet/doctor.py",
        was=" if alike not in shared]",
        becomes="]",
        caught_by=f"{COMMANDS}::test_doctor_reports_what_is_alike_once_and_the_rest_by_database",
    ),
    Mutant(
        "a database whose URL has changed is served under the old one too",
        file="app/fleet/worker.py",
        was="        if member in self._by_member:\n            self._leave(member)\n",
        becomes="",
        caught_by=f"{DISCOVERY}::test_a_database_that_moves_while_it_is_served_is_served_where_it_is",
    ),
    Mutant(
        "a worker that stops keeps its share until its handlers have finished",
        file="app/fleet/share.py",
        was="await self._lease.release()",
        becomes="await asyncio.sleep(0)",
        caught_by=f"{SHARES}::test_a_worker_gives_its_share_up_before_its_handlers_have_finished",
    ),
    Mutant(
        "a worker that comes moves the databases of all",
        file="app/fleet/share.py",
        was="max(self._held, key=lambda number: _score(number, database))",
        becomes="sorted(self._held)[_score(0, database)[0] % len(self._held)]",
        caught_by=f"{SHARES}::test_workers_divide_the_databases_and_a_change_moves_only_what_it_must",
    ),
    Mutant(
        "a worker gives its databases up while the home is away",
        file="app/fleet/share.py",
        was="        self._failures += 1\n",
        becomes="        self._failures += 1\n        self._number = None\n",
        caught_by=f"{SHARES}::test_while_the_home_is_away_each_keeps_what_it_has",
    ),
    Mutant(
        "a worker that has never reached the home serves nothing",
        file="app/fleet/share.py",
        was="            self._is_all = True",
        becomes="            self._is_all = False",
        caught_by=f"{SHARES}::test_while_the_home_is_away_each_keeps_what_it_has",
    ),
    Mutant(
        "a share that was lost is not acquired again",
        file="app/fleet/share.py",
        was="        if self._lease is None or self._lease.lost or epochs.get(self._number or 0) != self._lease.epoch:",
        becomes="        if self._lease is None:",
        caught_by=f"{SHARES}::test_a_share_that_an_operator_released_is_acquired_again",
    ),
    Mutant(
        "workers of other groups divide with these",
        file="app/fleet/share.py",
        was="json.dumps([app, databases, sorted(served)])",
        becomes="json.dumps([app, databases])",
        caught_by=f"{SHARES}::test_workers_of_other_groups_or_databases_divide_on_their_own",
    ),
    Mutant(
        "a database that was given up is claimed from until its handlers have finished",
        file="app/fleet/worker.py",
        was="        attendance.leave()\n",
        becomes="",
        caught_by=f"{SHARES}::test_what_is_given_up_is_drained_and_served_again_if_it_comes_back",
    ),
    Mutant(
        "a busy database of any weight keeps its turn as long",
        file="app/fleet/worker.py",
        was="_SLICE * self.member.database.weight",
        becomes="_SLICE",
        caught_by=f"{ORDER}::test_a_heavy_database_keeps_its_turn_longer",
    ),
    Mutant(
        "a database makes room although it has work, whatever the order",
        file="app/fleet/worker.py",
        was='self._options.order == "round-robin" and ',
        becomes="",
        caught_by=f"{ORDER}::test_a_busy_database_keeps_its_turn_until_it_has_no_work",
    ),
    Mutant(
        "a schedule of the fleet is declared in each database",
        file="app/place.py",
        was="frozenset() if self.is_home else",
        becomes="frozenset() if self.front else",
        caught_by=SCOPE,
    ),
    Mutant(
        "a schedule of the fleet stays where the home was",
        file="app/maintenance.py",
        was='Declarer(name, ""), self._elsewhere())',
        becomes='Declarer(name, ""))',
        caught_by=f"{SCOPE}::test_a_schedule_that_becomes_one_of_the_fleet_ends_in_the_other_databases",
    ),
    Mutant(
        "an app that leads a fleet fires its schedules in a database of its own",
        file="app/fleet/fleet.py",
        was="        own.is_home = False\n",
        becomes="",
        caught_by=f"{SCOPE}::test_an_app_with_a_database_of_its_own_leaves_it_to_the_home",
    ),
    Mutant(
        "anyone has the databases of a fleet opened by its probes",
        file="dashboard/site.py",
        was="        if services.database is not None:  # or",
        becomes="        if not services.is_there():  # or",
        caught_by=f"{ACCESS}::test_without_login_no_database_answers_and_none_is_opened_or_betrayed",
    ),
    Mutant(
        "a page tells anyone which databases there are",
        file="dashboard/site.py",
        was='held=False)).may("viewer"):\n                    response',
        becomes="held=False)).may(None):\n                    response",
        caught_by=f"{ACCESS}::test_without_login_no_database_answers_and_none_is_opened_or_betrayed",
    ),
    Mutant(
        "a login is one of a single database",
        file="dashboard/security/gate.py",
        was="cookie_name(request.scope[HOME])",
        becomes="cookie_name(request.scope[ROOT])",
        caught_by=f"{ACCESS}::test_one_login_is_for_all_databases_and_ends_for_all",
    ),
    Mutant(
        "equal streams of two databases are one",
        file="dashboard/site.py",
        was="Watched((of.app, of.database, route.path,",
        becomes="Watched((of.fleet, route.path,",
        caught_by=f"{DASHBOARD}::test_equal_streams_of_two_databases_show_each_its_own",
    ),
    Mutant(
        "the pages of a database stay with the one that had its name",
        file="dashboard/fleet.py",
        was="if known is None or known.app is not app:",
        becomes="if known is None:",
        caught_by=f"{DASHBOARD}::test_a_database_that_leaves_is_dropped_and_one_that_moves_is_another",
    ),
    Mutant(
        "a database that hangs keeps the overview from the others",
        file="app/fleet/survey.py",
        was="call_later(_HANGS_AFTER, place.give_back)",
        becomes="call_later(LASTS, place.give_back)",
        caught_by=f"{DASHBOARD}::test_databases_that_cannot_be_used_cost_the_others_nothing",
    ),
    Mutant(
        "looking at a fleet makes the files that are not there",
        file="app/fleet/survey.py",
        was="        if member.address.missing:",
        becomes="        if member.address.is_fleet:",
        caught_by=f"{DASHBOARD}::test_a_file_that_is_not_there_is_not_made_by_looking",
    ),
    Mutant(
        "the overview keeps every database open",
        file="app/fleet/survey.py",
        was="if stays := len(self._entries) <= min(_KEPT_OPEN,",
        becomes="if stays := len(self._entries) >= min(_KEPT_OPEN,",
        caught_by=f"{DASHBOARD}::test_of_many_databases_at_most_eight_are_open_for_the_overview",
    ),
    Mutant(
        "every process reports on all databases",
        file="app/fleet/metrics.py",
        was="            if reports and (age",
        becomes="            if (age",
        caught_by=f"{METRICS}::test_one_process_reports_on_the_databases_where_the_fleet_names_a_home",
    ),
    Mutant(
        "a database that was never used here has numbers of this process",
        file="app/fleet/metrics.py",
        was=" for each in members if _is_used(each)}",
        becomes=" for each in members}",
        caught_by=f"{METRICS}::test_a_database_that_this_process_never_used_has_only_what_is_read_of_it",
    ),
    Mutant(
        "numbers of one database stand under the name of another",
        file="telemetry/metrics.py",
        was="extend(((name, *labels), value)",
        becomes='extend((("", *labels), value)',
        caught_by=METRICS,
    ),
    Mutant(
        "one dead database makes a whole fleet unready",
        file="app/fleet/state.py",
        was='"unhealthy" if len(troubles) >= total else "degraded"',
        becomes='"unhealthy" if len(troubles) >= 1 else "degraded"',
        caught_by=f"{DASHBOARD}::test_probes_of_a_fleet_tell_the_worker_from_its_databases",
    ),
]
