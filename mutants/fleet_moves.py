"""A database of a fleet moves to another one: nothing is lost, or in two places, and a late mover changes nothing."""

from __future__ import annotations

from mutants.mutant import Mutant

MOVE = "tests/integration/fleet/test_move.py"
AGAIN = "tests/integration/fleet/test_move_again.py"

MUTANTS: list[Mutant] = [
    Mutant(
        "a lease is confirmed in a database that moves",
        file="storage/postgres/transfer.py",
        was='            yield self._sql("lease_epochs_away")\n',
        becomes="",
        caught_by=f"{MOVE}::test_no_transaction_confirms_a_lease_of_the_old_database",
    ),
    Mutant(
        "numbers of the new place begin where its rows end",
        file="app/fleet/mover.py",
        was="await self._target.transfer.set_marks(await self._source.transfer.marks(), self._epoch)",
        becomes="True",
        caught_by=f"{MOVE}::test_numbers_go_on_above_those_of_the_old_database",
    ),
    Mutant(
        "a mover that only stood still writes to the new place",
        file="storage/postgres/transfer.py",
        was="""    def clear(self, table: str, epoch: int) -> Script[bool]:
        yield self._begin(epoch)
        if not (yield self._sql("transfer_held", epoch)):
            return False
""",
        becomes="""    def clear(self, table: str, epoch: int) -> Script[bool]:
        yield self._begin(epoch)
""",
        caught_by=f"{AGAIN}::test_a_mover_that_only_stood_still_changes_nothing_any_more",
    ),
    Mutant(
        "a later mover does not take the record over",
        file="storage/portable/sql/moves.sql#move_note",
        was="AND epoch <= $2",
        becomes="",
        caught_by=f"{AGAIN}::test_a_mover_that_only_stood_still_changes_nothing_any_more",
    ),
    Mutant(
        "a target with content is replaced",
        file="app/fleet/mover.py",
        was='any(each != "schedule" for each in filled)',
        becomes="False",
        caught_by=f"{AGAIN}::test_a_move_that_cannot_be_is_refused_and_changes_nothing",
    ),
    Mutant(
        "tables that differ are served",
        file="app/fleet/mover.py",
        was="            if there != here:\n",
        becomes="            if False:\n",
        caught_by=f"{AGAIN}::test_a_table_that_differs_is_found_and_copied_again",
    ),
    Mutant(
        "the record leads away from the answer of the application",
        file="app/fleet/moves.py",
        was=" or place_of(named.get(move.name)) == latest[move.name].place",
        becomes="",
        caught_by=f"{MOVE}::test_the_answer_of_the_application_takes_over_when_it_says_the_same "
        f"{MOVE}::test_a_database_may_move_on",
    ),
    Mutant(
        "a verdict for a database that has moved is kept for ever",
        file="runtime/settler.py",
        was="            if not error.is_over:\n                raise\n            self._lose()",
        becomes="            raise",
        caught_by=f"{MOVE}::test_what_is_in_hand_at_the_fence_is_taken_over_in_the_new_place",
    ),
    Mutant(
        "a publish that the fence has refused is not tried in the new place",
        file="app/fleet/publisher.py",
        was="            await self._refresh()\n",
        becomes="",
        caught_by=f"{MOVE}::test_a_fleet_serves_the_new_place_under_the_old_name_in_every_process",
    ),
    Mutant(
        "an undone move goes back although its new place was served",
        file="app/fleet/mover.py",
        was="            if begun.step in REROUTED:\n",
        becomes="            if False:\n",
        caught_by=f"{AGAIN}::test_nothing_goes_back_once_it_is_rerouted",
    ),
    Mutant(
        "a handler's transaction that the fence refuses is a failed attempt",
        file="app/transaction/consumers.py",
        was="    except (NotGranted, DatabaseMoved) as error:",
        becomes="    except NotGranted as error:",
        caught_by=f"{AGAIN}::test_a_transaction_of_a_handler_that_the_fence_refuses_is_no_failed_attempt",
    ),
    Mutant(
        "groups that a move has paused stay paused",
        file="app/fleet/mover.py",
        was="            if group.paused_by == self._mark:\n",
        becomes="            if False:\n",
        caught_by=f"{AGAIN}::test_a_move_that_was_stopped_anywhere_goes_on",
    ),
]
