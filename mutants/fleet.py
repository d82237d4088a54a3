"""One app on many databases: where code runs, which databases are served, and at what cost to the others."""

from __future__ import annotations

from mutants.mutant import Mutant

HANDLERS = "tests/integration/fleet/test_handlers.py"
DISCOVERY = "tests/integration/fleet/test_discovery.py"
PUBLISHING = "tests/integration/fleet/test_publishing.py"
WORKER = "tests/integration/fleet/test_worker.py"
CONNECTIONS = "tests/integration/fleet/test_connections.py"
OUTLOOK = "tests/contract/test_outlook.py"

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
        file="app/fleet/routing.py",
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
        file="app/fleet/worker.py",
        was="call_later(_HANGS_AFTER, turn.end)",
        becomes="call_later(_DEADLINE, turn.end)",
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
        "a claim that has lapsed is nothing to do",
        file="storage/postgres/sql/workers.sql#outlook",
        was="AND d.held_by IS NOT NULL",
        becomes="AND d.held_by IS NOT NULL AND false",
        caught_by=OUTLOOK,
    ),
    Mutant(
        "a database of a fleet has as many connections as an app of its own",
        file="app/fleet/member.py",
        was="exported=False, sparing=True)",
        becomes="exported=False)",
        caught_by=f"{CONNECTIONS}::test_a_database_that_works_has_two_connections_or_three",
    ),
    Mutant(
        "each turn at a database declares again what its fleet has declared",
        file="app/fleet/worker.py",
        was="            self.member.place.is_tended = True\n",
        becomes="",
        caught_by=f"{CONNECTIONS}::test_its_worker_declares_nothing_that_the_fleet_has_declared",
    ),
]
