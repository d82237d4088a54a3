"""What health and metrics tell: of workers, schedules, checks of the application's own, and a damaged schema."""

from __future__ import annotations

from mutants.mutant import Mutant

RIGHTS = "tests/integration/postgres/test_rights.py"

MUTANTS: list[Mutant] = [
    Mutant(
        "messages that have just been parked degrade health",
        file="app/observe/checks.py",
        was='Filter(state="parked", until=since, limit=_PAGE)',
        becomes='Filter(state="parked", limit=_PAGE)',
        caught_by="tests/unit/app/test_health.py",
    ),
    Mutant(
        "a process of another app serves a group",
        file="model/views.py",
        was="if (each.app, each.name) in live}",
        becomes="if each.name in {group for _, group in live}}",
        caught_by="tests/unit/app/test_health.py::test_a_worker_of_another_app_serves_nothing_of_this_one",
    ),
    Mutant(
        "a queue counts as served without a process",
        file="app/observe/checks.py",
        was="if each.name in ready and each.paused_at is None}",
        becomes="if each.name in ready and each.paused_at is None and not _is_queue(each)}",
        caught_by="tests/unit/app/test_health.py::test_a_queue_is_served_while_its_process_has_it_open",
    ),
    Mutant(
        "doctor proposes to retire a group that a live process serves",
        file="app/observe/doctor.py",
        was="{*code.groups, *(group for each in roster.alive() for group in each.groups)}",
        becomes="{*code.groups}",
        caught_by="tests/integration/app/test_doctor_queues.py",
    ),
    Mutant(
        "doctor takes a queue for a group that is no longer in the code",
        file="app/observe/doctor.py",
        was=", *(each.group for each in self.queues)]",
        becomes="]",
        caught_by="tests/integration/app/test_doctor_queues.py",
    ),
    Mutant(
        "a release that replaces another is taken for another application",
        file="model/views.py",
        was="each.app == app and each.version in (None, version)]",
        becomes="each.app == app]",
        caught_by="tests/runtime/test_namesakes.py tests/integration/app/test_doctor_names.py",
    ),
    Mutant(
        "without versions, a worker that has just come is taken for another application",
        file="runtime/janitor.py",
        was="            if self._version or roster.now - max(began, each.started_at) >= SILENT_AFTER\n",
        becomes="",
        caught_by="tests/runtime/test_namesakes.py",
    ),
    Mutant(
        "another application of the same name is logged every minute",
        file="runtime/janitor.py",
        was="            self._known.update(each.groups for each in news)\n",
        becomes="",
        caught_by="tests/runtime/test_namesakes.py",
    ),
    Mutant(
        "a worker with a dead loop is well enough",
        file="app/observe/checks.py",
        was="if any(each.ended for each in reports.values()):",
        becomes="if all(each.ended for each in reports.values()):",
        caught_by="tests/raising/test_overrunning.py::test_a_worker_with_a_loop_that_has_ended_is_unhealthy",
    ),
    Mutant(
        "a database that refuses something counts as down",
        file="app/observe/metrics.py",
        was="            if self._ungranted != str(error):  # once: a scrape changes nothing about it\n",
        becomes="            found = [Family(catalogue.UP, [((), 0)])]\n            if self._ungranted:\n",
        caught_by=f"{RIGHTS}::test_a_refusal_is_no_outage",
    ),
    Mutant(
        "a database that is away counts as up",
        file="app/observe/metrics.py",
        was="    except (MainspringError, TimeoutError):\n        return False\n    return True",
        becomes="    except MainspringError:\n        return True\n    return True",
        caught_by="tests/integration/app/test_metrics.py::test_without_the_database_a_process_tells_of_itself",
    ),
    Mutant(
        "a part of a password that is not escaped is shown as the host",
        file="storage/postgres/errors.py",
        was=", *password_parts(dsn)]",
        becomes="]",
        caught_by="tests/unit/storage/postgres/test_address.py",
    ),
    Mutant(
        "a lost lease is not told by health",
        file="runtime/lease_keeper.py",
        was="        if why != CLOSED:\n",
        becomes="        if why == CLOSED:\n",
        caught_by="tests/integration/app/test_lease_health.py",
    ),
    Mutant(
        "a schedule that is frozen on purpose counts as overdue",
        file="app/observe/schedule_checks.py",
        was='            and not frozen & {"", each.app}\n',
        becomes="",
        caught_by="tests/unit/app/test_schedule_health.py",
    ),
    Mutant(
        "a function that hangs is called again with every probe",
        file="app/observe/custom_checks.py",
        was="    if check.running:\n",
        becomes="    if not check:\n",
        caught_by="tests/unit/app/test_custom_checks.py",
    ),
    Mutant(
        "a table that was lost is created again, empty",
        file="storage/migrations.py",
        was="    gone = [each for each in objects if not each.statements]\n",
        becomes="    gone = [each for each in objects if each.kind not in ('table', 'function', 'view')]\n",
        caught_by="tests/contract/test_schema.py",
    ),
    Mutant(
        "one of several functions of a name may be missing",
        file="storage/migrations.py",
        was="        if there.get((kind, name), 0) < len(statements)",
        becomes="        if (kind, name) not in there",
        caught_by="tests/integration/postgres/test_damage.py::test_one_lost_form_of_a_function_is_noticed",
    ),
    Mutant(
        "what a loop has counted is counted twice when it has ended",
        file="telemetry/measures.py",
        was="                self._meters.remove(meter)\n                self._ended.add(meter)",
        becomes="                self._ended.add(meter)",
        caught_by="tests/unit/telemetry/test_measures.py",
    ),
    Mutant(
        "a message that was there already is counted as published in a transaction",
        file="app/transaction/enlistment.py",
        was="            self.published(each for each in drafts if each.id in published.stored)",
        becomes="            self.published(drafts)",
        caught_by="tests/integration/app/test_metrics.py",
    ),
    Mutant(
        "the probe of a worker that does no work answers 200",
        file="model/health.py",
        was='return self.status != "unhealthy"',
        becomes="return bool(self.checks)",
        caught_by="tests/dashboard/test_health.py::test_a_database_without_a_schema_is_unhealthy",
    ),
    Mutant(
        "a paused group takes the whole app out of service",
        file="app/observe/checks.py",
        was="_grade(total - sum(held.values()), limits), ",
        becomes="_grade(total, limits), ",
        caught_by="tests/unit/app/test_health.py",
    ),
    Mutant(
        "a scrape waits for the slowest check",
        file="app/observe/custom_checks.py",
        was="        await asyncio.wait(calls, timeout=PATIENCE)\n",
        becomes="        await asyncio.wait(calls)\n",
        caught_by="tests/unit/app/test_custom_checks.py::"
        "test_metrics_do_not_wait_for_a_slow_check_and_report_its_result_when_it_ends",
    ),
    Mutant(
        "a check that returns an unknown status breaks all others",
        file="app/observe/custom_checks.py",
        was="    if not isinstance(status, str) or status not in ORDER:\n",
        becomes="    if not isinstance(status, str):\n",
        caught_by="tests/unit/app/test_custom_checks.py::test_what_a_function_returns_or_raises_is_the_result",
    ),
    Mutant(
        "health shows a password in the data of a check",
        file="model/redaction.py",
        was="    if is_secret(name) and not isinstance(value, int | float | None):\n",
        becomes="    if not name:\n",
        caught_by="tests/unit/app/test_custom_checks.py::test_the_data_of_a_check_is_json_without_its_secrets",
    ),
]
