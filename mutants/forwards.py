"""Messages for another database of a fleet than that of their transaction: once, and none delays another."""

from __future__ import annotations

from mutants.mutant import Mutant

FORWARD = "tests/integration/fleet/test_forward.py"
FORWARD_OUTAGES = "tests/integration/fleet/test_forward_outages.py"

MUTANTS: list[Mutant] = [
    Mutant(
        "a message with one id for two databases is stored for one of them",
        file="app/fleet/forward.py",
        was="uuid5(each.id, database) if is_named else each.id",
        becomes="each.id",
        caught_by=f"{FORWARD}::test_one_id_is_one_message_in_each_database",
    ),
    Mutant(
        "a message for another database is found by its key where it waits",
        file="app/fleet/forward.py",
        was="headers=headers, key=None, ",
        becomes="headers=headers, ",
        caught_by=f"{FORWARD}::test_a_key_finds_it_in_the_database_that_it_is_for_and_nowhere_else",
    ),
    Mutant(
        "a delay counts from the arrival in the other database",
        file="app/fleet/forward.py",
        was="at=start + forward.delay if forward.delay else forward.at,",
        becomes="at=forward.at, delay=forward.delay,",
        caught_by=f"{FORWARD}::test_times_count_from_the_publish_and_not_from_the_arrival",
    ),
    Mutant(
        "what is sent again to another database has another mark",
        file="app/fleet/destinations.py",
        was="group, SOURCE, drafts)",
        becomes='group, f"{SOURCE} {time.monotonic()}", drafts)',
        caught_by=f"{FORWARD}::test_a_repeat_is_known_by_its_mark_when_both_databases_have_forgotten_its_id",
    ),
    Mutant(
        "messages for other databases wait for one that hangs",
        file="app/fleet/destinations.py",
        was="timeout=_GLANCE if self._pause else _PATIENCE",
        becomes="timeout=None",
        caught_by=f"{FORWARD_OUTAGES}::test_databases_that_cannot_be_used_delay_no_other_and_get_everything_later",
    ),
    Mutant(
        "every batch tries a database that is away",
        file="app/fleet/destinations.py",
        was="        if self._late or (",
        becomes="        if self._late and (",
        caught_by=f"{FORWARD_OUTAGES}::test_while_a_database_is_away_few_attempts_are_made_and_a_backlog_is_spread_over_time",
    ),
    Mutant(
        "messages for a database that has left the fleet are buried",
        file="app/fleet/destinations.py",
        was='SendResult("later", "it is no database of the fleet")',
        becomes='SendResult("rejected", "it is no database of the fleet")',
        caught_by=f"{FORWARD_OUTAGES}::test_a_database_that_is_no_longer_in_the_fleet_keeps_its_messages_waiting",
    ),
    Mutant(
        "a database whose only work is for others gets no turn",
        file="app/fleet/worker.py",
        was="*(each.group for each in place.own)",
        becomes="",
        caught_by=f"{FORWARD}::test_every_worker_of_the_fleet_sends_whatever_it_has_chosen",
    ),
    Mutant(
        "what route names is sent across without being asked for",
        file="app/fleet/router.py",
        was="if crosses and by_name and",
        becomes="if crosses and",
        caught_by=f"{FORWARD}::test_what_cannot_be_true_across_databases_is_rejected",
    ),
]
