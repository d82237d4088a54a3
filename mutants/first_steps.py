"""What a newcomer meets first: commands that find the application, files that are written, words of other libraries."""

from __future__ import annotations

from mutants.mutant import Mutant

TARGET = "tests/integration/cli/test_target.py"
RELOAD = "tests/integration/cli/test_reload.py"
INIT = "tests/integration/cli/test_init.py"
VOCABULARY = "tests/unit/app/test_vocabulary.py"

MUTANTS: list[Mutant] = [
    Mutant(
        "a foreign option of a command is answered with one that the command does not have",
        file="vocabulary.py",
        was="if flag in row.words.split() and row.option in known",
        becomes="if flag in row.words.split()",
        caught_by="tests/integration/cli/test_target.py",
    ),
    Mutant(
        "a worker restarts for ever if its application writes a file",
        file="app/process/reloader.py",
        was="if any(own.get(path, 0) <= _STARTS for path in changed):",
        becomes="if changed:",
        caught_by="tests/unit/app/test_reloader.py",
    ),
    Mutant(
        "a configured application wins over the URL that is typed",
        file="cli/target.py",
        was="if self.app or self.url or self.namespace or self.schema:",
        becomes="if self.app:",
        caught_by=f"{TARGET}::test_what_is_typed_wins_over_what_is_configured",
    ),
    Mutant(
        "the application of a file is imported from wherever the command is typed",
        file="cli/target.py",
        was="None if setting.source == APP else around.folder",
        becomes="None",
        caught_by=f"{TARGET}::test_the_application_of_the_file_is_imported_from_where_the_file_is",
    ),
    Mutant(
        "init overwrites the user's own files",
        file="cli/init.py",
        was='path.open("w" if force else "x"',
        becomes='path.open("w" if force else "a"',
        caught_by=f"{INIT}::test_a_file_that_is_there_is_kept_unless_forced",
    ),
    Mutant(
        "a worker that cannot be imported is not started again by the change that mends it",
        file="app/process/reloader.py",
        was="changed = changed or await self._until_changed(seen, started)",
        becomes="changed = None",
        caught_by=f"{RELOAD}::test_a_changed_file_restarts_the_worker_and_a_broken_one_waits_for_the_next_change",
    ),
    Mutant(
        "a production preset is reloaded",
        file="cli/workers.py",
        was='if options.preset == "production" and source != "default":',
        becomes='if options.preset == "production" and source == "argument":',
        caught_by=f"{RELOAD}::test_reloading_is_for_one_process_in_development",
    ),
    Mutant(
        "a paused group is shown as served",
        file="app/process/banner.py",
        was="for each in roster.groups if each.paused_at is not None}",
        becomes="for each in roster.groups if each.served_at is None}",
        caught_by="tests/integration/cli/test_worker.py::"
        "test_a_worker_prints_its_database_groups_and_schedules_and_what_it_skips",
    ),
    Mutant(
        "a foreign word is answered for another call than it was given to",
        file="vocabulary.py",
        was="own = next((row for row in rows if row.option in known), None)",
        becomes="own = next(iter(rows), None)",
        caught_by=VOCABULARY,
    ),
    Mutant(
        "an outcome that is raised is an error like any other",
        file="runtime/verdicts.py",
        was='raised = _RAISED.search(last[0].line or "") if last else None',
        becomes="raised = None",
        caught_by=f"{VOCABULARY}::test_an_outcome_that_is_raised_fails_with_what_to_write",
    ),
    Mutant(
        "a method without its object is taken for a handler",
        file="app/consume/signature.py",
        was="        _refuse_method(function, name)\n",
        becomes="",
        caught_by=f"{VOCABULARY}::test_a_method_is_rejected_with_how_to_register_one",
    ),
    Mutant(
        "a handler of *args is called without its payload",
        file="app/consume/injection.py",
        was="        _refuse_variable(signature, read, name)\n",
        becomes="        pass\n",
        caught_by="tests/unit/app/test_signature.py::test_a_signature_that_cannot_be_served_says_what_to_change",
    ),
    Mutant(
        "a publish that was not awaited is done",
        file="runtime/executor.py",
        was="                run.refuse_unawaited()\n",
        becomes="",
        caught_by="tests/raising/test_unawaited.py::test_a_publish_that_was_not_awaited_is_a_failure",
    ),
    Mutant(
        "a transaction is committed with a publish that was not awaited",
        file="app/transaction/consumers.py",
        was="    run.refuse_unawaited()\n",
        becomes="",
        caught_by="tests/raising/test_unawaited.py::test_a_publish_that_was_not_awaited_is_a_failure",
    ),
    Mutant(
        "a publish in a task of the handler's own is taken for one that was not awaited",
        file="runtime/executor.py",
        was="                await asyncio.sleep(0)  # tasks that the handler has created begin\n",
        becomes="",
        caught_by="tests/raising/test_unawaited.py::test_a_publish_in_a_task_that_outlives_the_run_is_no_failure",
    ),
    Mutant(
        "a consumer of sessions is lent a bare connection in a test",
        file="testing/services.py",
        was="return source.bound_to(self._tx) or partial(nullcontext, self._tx)",
        becomes="return partial(nullcontext, self._tx)",
        caught_by="tests/integration/testing/test_routes.py",
    ),
    Mutant(
        "an unknown option of a call is left to Python",
        file="app/options.py",
        was="        if not options.keys() <= known:\n",
        becomes="        if not known:\n",
        caught_by="tests/unit/app/test_first_mistakes.py::test_an_unknown_option_is_rejected_with_ours",
    ),
]
