"""What people see and may do: dashboard, command line, logs, rights, namespaces and migrations."""

from __future__ import annotations

from mutants.mutant import Mutant

ACCESS_LOG = "tests/dashboard/test_access_log.py"
RIGHTS = "tests/integration/postgres/test_rights.py"
MIGRATING = "tests/integration/postgres/test_migrating.py"
HEADERS = "tests/integration/app/test_reserved_headers.py"
WALK = "tests/integration/namespaces/test_walk.py"

DASHBOARD: list[Mutant] = [
    Mutant(
        "the look-ahead of a schedule leaves out the days that its code decides",
        file="app/schedule/edits.py",
        was="        edits = self._edited(name, row, rhythm, _undone(reset), options)",
        becomes="        edits = self._edited(name, row, rhythm, _undone(reset), {'workdays': [], **options})",
        caught_by="tests/dashboard/test_instants.py::test_what_is_omitted_is_as_in_the_schedule_that_is_named",
    ),
    Mutant(
        "a change without its CSRF token is accepted",
        file="dashboard/security/gate.py",
        was="if access.csrf is None or not hmac.compare_digest(sent.encode(), access.csrf.encode()):",
        becomes="if access.csrf is None and not sent:",
        caught_by=f"{ACCESS_LOG}::test_a_change_that_is_refused_is_noted_with_who_wanted_it",
    ),
    Mutant(
        "the CSRF token of one login is good for all",
        file="dashboard/security/identity.py",
        was='self._sign(session.role, f"csrf.{session.id}")',
        becomes='self._sign(session.role, "csrf")',
        caught_by="tests/dashboard/test_login.py::test_a_csrf_token_of_another_session_does_not_count",
    ),
    Mutant(
        "a page of another origin changes something",
        file="dashboard/security/headers.py",
        was="(name, port or usual) == (host_name, host_port or usual)",
        becomes="name == host_name",
        caught_by="tests/dashboard/test_login.py::test_a_cookie_counts_only_on_pages_of_ours",
    ),
    Mutant(
        "a viewer may act",
        file="dashboard/security/identity.py",
        was='return role is None or self.role in ("operator", role)',
        becomes="return role is None or self.role is not None",
        caught_by="tests/dashboard/test_hook.py::test_a_viewer_of_the_host_application_changes_nothing",
    ),
    Mutant(
        "what a host application knows by a cookie needs no CSRF token",
        file="dashboard/security/gate.py",
        was='"hook" if identity.ambient else "bearer"',
        becomes='"bearer"',
        caught_by="tests/dashboard/test_hook.py",
    ),
    Mutant(
        "the cookie of a login that was ended still lets in",
        file="dashboard/security/identity.py",
        was="session.expires <= self._clock() or id in self._ended else session",
        becomes="session.expires <= self._clock() else session",
        caught_by="tests/dashboard/test_login.py",
    ),
    Mutant(
        "a dashboard without authentication is served",
        file="dashboard/options.py",
        was="if authenticate is None and not known:",
        becomes="if authenticate is None and tokens is None and not known and not hosts:",
        caught_by="tests/dashboard/test_open.py",
    ),
    Mutant(
        "wrong tokens are not held back",
        file="dashboard/security/gate.py",
        was="if held and not await self.attempts.hold():",
        becomes="if held and not self.attempts:",
        caught_by="tests/dashboard/test_attempts.py",
    ),
    Mutant(
        "strangers who guess lock out the owner of a token",
        file="dashboard/security/gate.py",
        was="if role is not None:",
        becomes="if role is not None and (not held or await self.attempts.hold()):",
        caught_by="tests/dashboard/test_attempts.py::test_a_right_token_is_let_in_at_once_however_many_strangers_guess",
    ),
    Mutant(
        "a sender that goes away takes a place among the held for ever",
        file="dashboard/security/identity.py",
        was="        try:\n            await self._sleep(SECONDS)\n        finally:\n            self._held -= 1",
        becomes="        await self._sleep(SECONDS)\n        self._held -= 1",
        caught_by="tests/dashboard/test_attempts.py",
    ),
    Mutant(
        "a body that does not say its length is read without end",
        file="dashboard/route.py",
        was="                if len(parts) > largest:\n                    raise too_large\n",
        becomes="",
        caught_by="tests/dashboard/test_bodies.py::test_a_large_body_is_refused_by_what_it_says_and_by_counting",
    ),
    Mutant(
        "a secret that stands beside the name of its field is shown",
        file="model/masking.py",
        was="case [first, _] if self._tells_of_hidden(first):\n                return [first, self.mask]",
        becomes="case [_, _] if not value:\n                return value",
        caught_by="tests/dashboard/test_masking.py::test_text_within_payloads_is_masked",
    ),
    Mutant(
        "a header whose name tells of a secret is shown",
        file="dashboard/security/redaction.py",
        was="return {name: MASK if self.hides(name) else self.text(value) for name, value in headers.items()}",
        becomes="return {name: self.text(value) for name, value in headers.items()}",
        caught_by="tests/dashboard/test_redaction.py",
    ),
    Mutant(
        "a viewer finds out by searching what is masked",
        file="dashboard/route.py",
        was='return not self.services.redaction or self.access.role == "operator"',
        becomes="return not self.services.redaction or self.access.role is not None",
        caught_by="tests/dashboard/test_redaction.py",
    ),
    Mutant(
        "a response quotes the secret of an error",
        file="dashboard/responses.py",
        was="return redaction.text(value) if name in TEXTS else value",
        becomes="return value",
        caught_by="tests/dashboard/test_masking.py",
    ),
]

AUDIT: list[Mutant] = [
    Mutant(
        "every address of strangers has a line of its own",
        file="dashboard/security/access_log.py",
        was="_ADDRESSES = 16",
        becomes="_ADDRESSES = 16_000",
        caught_by=ACCESS_LOG,
    ),
    Mutant(
        "strangers fill the audit with more than sixty lines an hour",
        file="dashboard/security/access_log.py",
        was="            hour.lines += 1\n",
        becomes="",
        caught_by=ACCESS_LOG,
    ),
    Mutant(
        "a refusal of a known user is lost among those of strangers",
        file="dashboard/security/access_log.py",
        was="if what.by == UNKNOWN:",
        becomes="if what.by:",
        caught_by=f"{ACCESS_LOG}::"
        "test_who_is_known_is_written_at_once_where_strangers_have_used_up_the_lines_of_their_hour",
    ),
    Mutant(
        "refusals that were counted in a pause are told by nothing",
        file="dashboard/security/access_log.py",
        was="            self._write_count(key, run)\n            run.more, run.pause",
        becomes="            run.more, run.pause",
        caught_by=ACCESS_LOG,
    ),
    Mutant(
        "a count of many refusals is added to those of the hour as one",
        file="dashboard/security/access_log.py",
        was="hour.more + count",
        becomes="hour.more + 1",
        caught_by=ACCESS_LOG,
    ),
    Mutant(
        "refusals that were counted are lost when the dashboard closes",
        file="dashboard/security/access_log.py",
        was="        self._follow_loop()\n        self._write_counts()\n",
        becomes="        self._follow_loop()\n",
        caught_by=ACCESS_LOG,
    ),
    Mutant(
        "a login fails because the audit cannot be written",
        file="dashboard/security/access_log.py",
        was="except Exception as error:",
        becomes="except TimeoutError as error:",
        caught_by=ACCESS_LOG,
    ),
    Mutant(
        "the line about an audit that is away shows the password of its database",
        file="dashboard/security/access_log.py",
        was="redacted(str(error)) or type(error).__name__",
        becomes="str(error) or type(error).__name__",
        caught_by=ACCESS_LOG,
    ),
    Mutant(
        "a bulk action is not in the audit",
        file="app/admin/bulk.py",
        was="line = line or await self._begun(by)",
        becomes='line = line or Line(0, "")',
        caught_by="tests/unit/app/test_bulk_audit.py",
    ),
    Mutant(
        "the line of a bulk action is not brought up to date with its batches",
        file="storage/portable/sql/ledger.sql#audit_amend",
        was="replace(coalesce($2::text, detail), $3, $4)",
        becomes="replace(coalesce(detail, $2::text), $3, $4)",
        caught_by="tests/contract/test_picked.py",
    ),
    Mutant(
        "deliveries that an operator makes due are not in the audit",
        file="storage/postgres/sql/controls.sql#run_now",
        was="HAVING count(*) > 0 AND $3 IS NOT NULL",
        becomes="HAVING count(*) > 1 AND $3 IS NOT NULL",
        caught_by="tests/contract/test_picked.py",
    ),
]

TEXT: list[Mutant] = [
    Mutant(
        "a log line for people steers their terminal",
        file="telemetry/logs.py",
        was="first = _escaped(redacted(self.formatMessage(record)))",
        becomes="first = redacted(self.formatMessage(record))",
        caught_by="tests/unit/telemetry/test_logs.py",
    ),
    Mutant(
        "a line of a traceback looks like another record",
        file="telemetry/logs.py",
        was="*(_BELOW + _escaped(line) for each in below",
        becomes="*(_escaped(line) for each in below",
        caught_by="tests/unit/telemetry/test_logs.py",
    ),
    Mutant(
        "a table of stored text steers the terminal",
        file="cli/output.py",
        was="cells = [[clean(cell) for cell in row] for row in rows]",
        becomes="cells = [list(row) for row in rows]",
        caught_by="tests/integration/cli/test_words.py::test_no_cell_of_a_table_can_steer_a_terminal",
    ),
    Mutant(
        "an error of the command line repeats a password",
        file="cli/errors.py",
        was="sentence = redacted(_sentence(error))",
        becomes="sentence = _sentence(error)",
        caught_by="tests/integration/cli/test_passwords.py::test_a_url_in_the_wrong_place_keeps_its_password",
    ),
    Mutant(
        "a command that was refused ends with 0",
        file="cli/errors.py",
        was="FAILED = 2",
        becomes="FAILED = 0",
        caught_by="tests/integration/cli/test_errors.py::test_a_mistake_ends_the_process_with_2",
    ),
    Mutant(
        "a span holds the password of a URL",
        file="telemetry/spans.py",
        was="EXCEPTION_MESSAGE: redacted(text_of(error)),",
        becomes="EXCEPTION_MESSAGE: text_of(error),",
        caught_by="tests/integration/app/test_traced_attempts.py tests/integration/app/test_secrets.py",
    ),
    Mutant(
        "the attempt at a message is not in the trace of its publisher",
        file="telemetry/spans.py",
        was="parent=None if creation is None or _is_inside() else _within(creation),",
        becomes="parent=None,",
        caught_by="tests/integration/app/test_traces.py",
    ),
    Mutant(
        "a header of the library's own is accepted in capitals",
        file="model/message.py",
        was="return name[: len(RESERVED)].lower() == RESERVED",
        becomes="return name.startswith(RESERVED)",
        caught_by=f"{HEADERS}::test_every_way_to_publish_refuses_them",
    ),
    Mutant(
        "a handler is shown the headers of the library",
        file="app/consume/context.py",
        was="MappingProxyType(public(headers))",
        becomes="MappingProxyType(dict(headers))",
        caught_by=f"{HEADERS}::test_a_handler_is_not_shown_them_and_may_forward_all_it_is_shown",
    ),
    Mutant(
        "the function of SQL accepts a header of the library's own in capitals",
        file="storage/postgres/migrations/0020_namespaces.sql",
        was="WHEN left(lower(h.name), 11) = 'mainspring-' THEN",
        becomes="WHEN left(h.name, 11) = 'mainspring-' THEN",
        caught_by="tests/integration/postgres/test_sql_publish_refusals.py",
    ),
]

DATABASES: list[Mutant] = [
    Mutant(
        "a sequence that the role may not use is not named",
        file="storage/postgres/sql/schema.sql#rights_lacking",
        was="THEN NOT has_sequence_privilege(r.oid, c.oid, wanted.privilege)",
        becomes="THEN false",
        caught_by=RIGHTS,
    ),
    Mutant(
        "a column that the role may not read is not named",
        file="storage/postgres/sql/schema.sql#rights_lacking",
        was="AND NOT has_column_privilege(r.oid, c.oid, a.attnum, wanted.privilege)",
        becomes="AND false",
        caught_by=RIGHTS,
    ),
    Mutant(
        "a right that is lacking is not told by the health",
        file="app/observe/rights.py",
        was='return [replace(lacks(lacking), status="degraded")] if lacking else []',
        becomes="return []",
        caught_by=RIGHTS,
    ),
    Mutant(
        "a refusal for want of a right names no way to see which",
        file="storage/postgres/errors.py",
        was="            return not_granted(text, said, address, operation, lane)",
        becomes="            return StorageError(text)",
        caught_by=RIGHTS,
    ),
    Mutant(
        "a file of SQLite may be read by all users",
        file="storage/sqlite/connection.py",
        was="    _make_private(path)\n    return",
        becomes="    return",
        caught_by="tests/integration/sqlite/test_modes.py",
    ),
    Mutant(
        "an app moves to another database with its next connection",
        file="storage/postgres/gateway.py",
        was="if _databases(dsn) != _databases(self._dsn):",
        becomes="if not _databases(dsn):",
        caught_by="tests/unit/storage/postgres/test_source.py",
    ),
    Mutant(
        "the function that gives the URL is asked once",
        file="storage/postgres/gateway.py",
        was="self._taken(await asyncio.wait_for(asyncio.wrap_future(self._asked(self._ask)), self._patience))",
        becomes="self._dsn",
        caught_by="tests/unit/storage/postgres/test_source.py",
    ),
    Mutant(
        "a password that was changed a moment ago is no outage",
        file="storage/postgres/errors.py",
        was="_passes(refusal) or (renews and refusal.state.startswith(_CREDENTIALS))",
        becomes="_passes(refusal)",
        caught_by="tests/integration/postgres/test_rotation.py::test_a_password_that_is_not_known_yet_is_an_outage",
    ),
    Mutant(
        "two namespaces of one file share an index",
        file="storage/sqlite/dialect.py",
        was="{namespace.replace('_', '__')}",
        becomes="{namespace}",
        caught_by="tests/unit/storage/test_tables.py",
    ),
    Mutant(
        "a statement looks past the namespace",
        file="storage/sqlite/sql/ledger.sql#tally_parked",
        was="(SELECT value FROM mainspring_counter",
        becomes="(SELECT value FROM Mainspring_counter",
        caught_by=f"{WALK}::test_no_call_of_one_namespace_reaches_into_another",
    ),
    Mutant(
        "a migration waits for a lock as long as it takes",
        file="storage/postgres/schema.py",
        was="lock_timeout = {int(LOCK_TIMEOUT * 1000)}",
        becomes="lock_timeout = 0",
        caught_by=f"{MIGRATING}::test_who_is_in_the_way_for_too_long_is_named_and_nothing_is_half_done",
    ),
    Mutant(
        "a migration leaves its lock_timeout to the next client of a pooler",
        file="storage/postgres/schema.py",
        was="SET LOCAL lock_timeout",
        becomes="SET lock_timeout",
        caught_by=f"{MIGRATING}::test_no_setting_of_a_migration_is_left_to_other_clients_of_a_pooler",
    ),
    Mutant(
        "a migration is recorded before its index is made",
        file="storage/postgres/schema.py",
        was="            if step.concurrent:\n                await self._index(step)\n"
        '            await self._soon(f"migration {step.name}", lambda step=step: self._step(step))'
        "  # type: ignore[misc]\n",
        becomes='            await self._soon(f"migration {step.name}", lambda step=step: self._step(step))\n'
        "            if step.concurrent:\n                await self._index(step)\n",
        caught_by=f"{MIGRATING}::test_of_several_starters_one_makes_the_index_also_when_another_has_died",
    ),
    Mutant(
        "an index that was left unfinished counts as made",
        file="storage/postgres/schema.py",
        was="        if valid:\n            return False",
        becomes="        if found:\n            return False",
        caught_by=f"{MIGRATING}::test_an_index_that_was_left_unfinished_is_made_again",
    ),
    Mutant(
        "a release works on with a schema that breaks it",
        file="storage/migrations.py",
        was="if any(each.breaking and each.number > newest for each in applied):",
        becomes="if any(each.breaking and each.number > newest + 1 for each in applied):",
        caught_by="tests/unit/storage/test_migrate.py",
    ),
]

MUTANTS: list[Mutant] = [*DASHBOARD, *AUDIT, *TEXT, *DATABASES]
