"""Publishing, claiming, settling, extending, reaping and cancelling."""

from __future__ import annotations

from mutants.mutant import Mutant

_POSTGRES = "storage/postgres/sql/"
_SQLITE = "storage/sqlite/sql/"
_CREW = "tests/runtime/test_crew.py"
_CLAIM = "tests/contract/test_claim.py"
_HOLDERS = "tests/contract/test_holders.py"
_STRANGERS = "tests/integration/postgres/test_strangers.py"

MUTANTS: list[Mutant] = [
    # Publishing and routing.
    Mutant(
        "a delayed message is due at once",
        file="storage/postgres/migrations/0021_two_phase.sql",
        was="SELECT id, unnest(groups), $4, greatest(asked, published_at), asked",
        becomes="SELECT id, unnest(groups), $4, published_at, asked",
        caught_by="tests/contract/test_publish.py",
    ),
    Mutant(
        "a batch is routed by the beginning of a pattern alone",
        file="storage/postgres/migrations/0030_publish_all.sql",
        was=" AND k.topic ~ s.matcher",
        becomes="",
        caught_by="tests/contract/test_one_and_many.py::test_they_go_to_the_same_groups",
    ),
    Mutant(
        "a batch does not say which of its ids were known",
        file="storage/postgres/migrations/0030_publish_all.sql",
        was="WHEN (SELECT count(*) FROM fresh) < cardinality($6)",
        becomes="WHEN false",
        caught_by="tests/contract/test_conflicts.py",
    ),
    Mutant(
        "a wildcard matches topics that an earlier release stored for another namespace",
        file="storage/patterns.py",
        was='"[^./]+" if segment',
        becomes='"[^.]+" if segment',
        caught_by="tests/unit/storage/test_routing.py::test_what_is_not_meant_does_not_match",
    ),
    Mutant(
        "a known id with another payload passes for a repetition on PostgreSQL",
        file=_POSTGRES + "publish.sql#publish_known",
        was=" OR sha256(known.payload) <> draft.digest",
        becomes="",
        caught_by="tests/contract/test_conflicts.py",
    ),
    Mutant(
        "a known id with another payload passes for a repetition on SQLite",
        file=_SQLITE + "publish.sql#publish_known",
        was=" OR known.payload <> draft.payload",
        becomes="",
        caught_by="tests/contract/test_conflicts.py",
    ),
    Mutant(
        "a parked message is due when it is routed, however late it was asked for",
        file=_POSTGRES + "publish.sql#reroute",
        was="greatest(taken.due_at, NOW($3))",
        becomes="NOW($3)",
        caught_by="tests/contract/test_routing.py::test_a_parked_message_keeps_a_due_time_that_is_still_to_come",
    ),
    # Claiming and taking.
    Mutant(
        "an attempt is not counted on PostgreSQL",
        file=_POSTGRES + "claims.sql#claim",
        was="attempt = d.attempt + 1",
        becomes="attempt = d.attempt",
        caught_by=_CLAIM,
    ),
    Mutant(
        "an attempt is not counted on SQLite",
        file=_SQLITE + "claims.sql#claim_hold",
        was="attempt = attempt + 1",
        becomes="attempt = attempt",
        caught_by=_CLAIM,
    ),
    Mutant(
        "what is not due yet is claimed",
        file=_POSTGRES + "claims.sql#claim",
        was="              AND d.due_at <= NOW($8)\n",
        becomes="",
        caught_by=_CLAIM,
    ),
    Mutant(
        "what is less urgent is claimed with the first level",
        file=_SQLITE + "claims.sql#claim_scan",
        was="d.priority = ?2",
        becomes="d.priority >= ?2",
        caught_by=_CLAIM,
    ),
    Mutant(
        "what another holds is taken by its name",
        file=_POSTGRES + "claims.sql#take",
        was=" AND num_nulls(held_by) = 1",
        becomes="",
        caught_by="tests/contract/test_take.py",
    ),
    # Settling: who may, and what is said to those who may not.
    Mutant(
        "a plain success of another holder settles",
        file=_POSTGRES + "verdicts.sql#settle_done",
        was="      AND coalesce(d.held_by, '') = $4\n",
        becomes="",
        caught_by=_HOLDERS + "::test_nobody_but_its_holder_settles_a_claim",
    ),
    Mutant(
        "a plain success of another epoch settles",
        file=_POSTGRES + "verdicts.sql#settle_done",
        was="      AND d.epoch = ($2::integer[])[width_bucket(d.seq, $1::bigint[])]\n",
        becomes="",
        caught_by="tests/contract/test_fence.py::test_a_claim_of_a_future_epoch_is_lost",
    ),
    Mutant(
        "a plain success settles another message under its numbers",
        file=_POSTGRES + "verdicts.sql#settle_done",
        was="      AND d.message_id = ($3::uuid[])[width_bucket(d.seq, $1::bigint[])]\n",
        becomes="",
        caught_by=_HOLDERS + "::test_a_claim_settles_no_other_message_under_its_numbers",
    ),
    Mutant(
        "a verdict of another holder settles on PostgreSQL",
        file=_POSTGRES + "verdicts.sql#settle",
        was="AND d.held_by = $14, false) AS is_ours",
        becomes="AND d.held_by IS NOT NULL, false) AS is_ours",
        caught_by=_HOLDERS + "::test_nobody_but_its_holder_settles_a_claim",
    ),
    Mutant(
        "a verdict of another holder settles on SQLite",
        file="storage/sqlite/verdicts.py",
        was=" or row[_HELD] not in (owner, None)",
        becomes="",
        caught_by=_HOLDERS + "::test_nobody_but_its_holder_settles_a_claim",
    ),
    Mutant(
        "a verdict settles another message under its numbers",
        file="storage/sqlite/verdicts.py",
        was=" or row[_MESSAGE] != claim.message_id.bytes",
        becomes="",
        caught_by=_HOLDERS + "::test_what_was_handed_back_under_its_numbers_is_not_taken_for_ones_own",
    ),
    Mutant(
        "two claims under the same numbers are settled as one",
        file="storage/postgres/mailbox.py",
        was="if len({each.claim.id for each in settlements}) == len(settlements):",
        becomes="if settlements:",
        caught_by=_HOLDERS + "::test_two_messages_under_the_same_numbers_in_one_batch_do_not_mix",
    ),
    Mutant(
        "who was asked to stop and hands back runs again",
        file=_POSTGRES + "verdicts.sql#settle",
        was="found.name IN ('retry', 'snooze', 'release')",
        becomes="found.name IN ('retry', 'snooze')",
        caught_by="tests/contract/test_cancel.py::test_what_was_asked_to_be_cancelled_never_runs_again",
    ),
    Mutant(
        "a plain success on a locked row is said to be lost",
        file=_POSTGRES + "verdicts.sql#settle_done",
        was="ELSE 'busy'",
        becomes="ELSE 'lost'",
        caught_by=_STRANGERS + "::test_every_other_verdict_is_written",
    ),
    Mutant(
        "a verdict on a locked row is said to be written already",
        file=_POSTGRES + "verdicts.sql#settle",
        was="ELSE 'busy'",
        becomes="ELSE 'gone'",
        caught_by=_STRANGERS + "::test_every_other_verdict_is_written",
    ),
    Mutant(
        "a verdict on a locked row is forgotten by its worker",
        file="runtime/settler.py",
        was="                self._put_aside(origin, settlement)\n",
        becomes="                self._hands.drop(settlement.claim)\n                origin.settled()\n",
        caught_by="tests/runtime/test_busy_rows.py"
        "::test_a_worker_stops_although_a_row_stays_locked_and_says_what_was_not_written",
    ),
    # Extending.
    Mutant(
        "a claim of another holder is extended on PostgreSQL",
        file=_POSTGRES + "claims.sql#extend",
        was="          AND coalesce(held_by, '') = $4\n",
        becomes="",
        caught_by=_HOLDERS + "::test_nobody_but_its_holder_extends_a_claim",
    ),
    Mutant(
        "a claim of another holder is extended on SQLite",
        file=_SQLITE + "claims.sql#extend_read",
        was="WHERE d.held_by = ?2",
        becomes="WHERE d.held_by = ?2 OR d.held_by IS NOT NULL",
        caught_by=_HOLDERS + "::test_nobody_but_its_holder_extends_a_claim",
    ),
    Mutant(
        "a stale claim beside one under the same numbers is not told that it is lost",
        file=_POSTGRES + "claims.sql#extend",
        was="SELECT held.seq, held.epoch, held.message_id FROM held",
        becomes="SELECT held.seq, held.epoch, claim.message_id FROM held",
        caught_by=_HOLDERS + "::test_a_claim_is_extended_beside_one_that_is_stale_under_the_same_numbers",
    ),
    Mutant(
        "a claim whose row is locked is said to be lost",
        file=_POSTGRES + "claims.sql#extend",
        was="SELECT 'busy'",
        becomes="SELECT 'lost'",
        caught_by="tests/integration/postgres/test_claiming.py"
        "::test_a_heartbeat_passes_over_a_row_in_other_hands_and_says_busy",
    ),
    Mutant(
        "the progress of a run is reported by another holder",
        file=_POSTGRES + "workers.sql#report",
        was="  AND held.held_by = $5\n",
        becomes="  AND $5::text IS NOT NULL\n",
        caught_by=_HOLDERS + "::test_nobody_but_its_holder_reports_progress",
    ),
    # Reaping.
    Mutant(
        "a claim that was extended since it was seen is reaped",
        file=_POSTGRES + "claims.sql#reap",
        was="num_nulls(held_by) = 0\n              AND due_at <= NOW($4)\n",
        becomes="num_nulls(held_by) = 0\n",
        caught_by="tests/integration/postgres/test_claiming.py"
        "::test_a_claim_that_is_extended_after_a_reaper_has_looked_is_not_reaped",
    ),
    # Cancelling, and what people do to deliveries.
    Mutant(
        "a parked message on its way to its groups gets away from its cancelling",
        file=_POSTGRES + "controls.sql#cancel",
        was="(SELECT count(*) FROM unrouted) > (SELECT count(*) FROM waiting)",
        becomes="false",
        caught_by="tests/integration/postgres/test_cancelling.py",
    ),
    Mutant(
        "a running delivery is removed under its holder when it is cancelled",
        file="storage/sqlite/verdicts.py",
        was="free = [(seq, raw) for seq, raw, is_held, _ in found if not is_held]",
        becomes="free = [(seq, raw) for seq, raw, is_held, _ in found]",
        caught_by="tests/contract/test_cancel.py",
    ),
    Mutant(
        "the claim of a running delivery is cut short by hastening it",
        file=_SQLITE + "controls.sql#run_now",
        was="WHERE d.held_by IS NULL AND ",
        becomes="WHERE ",
        caught_by="tests/contract/test_picked.py",
    ),
    Mutant(
        "a revived dead letter stays dead too",
        file=_POSTGRES + "controls.sql#unbury",
        was="DELETE FROM mainspring.dead WHERE seq = ANY (ARRAY(SELECT chosen.seq FROM chosen))",
        becomes="DELETE FROM mainspring.dead WHERE NOT $13 AND seq = ANY (ARRAY(SELECT chosen.seq FROM chosen))",
        caught_by="tests/contract/test_dead_letters.py",
    ),
    Mutant(
        "a revived dead letter is lost",
        file="storage/sqlite/controls.py",
        was='            yield self._sql("dead_revive", seqs, at)\n',
        becomes="",
        caught_by="tests/contract/test_dead_letters.py",
    ),
    Mutant(
        "a revived dead letter can be settled under the claim it died with",
        file=_POSTGRES + "controls.sql#unbury",
        was="        greatest(epoch + 1, 1048576)\n",
        becomes="        epoch\n",
        caught_by="tests/contract/test_fence.py::test_the_epoch_of_a_buried_delivery_is_fenced_by_its_revival",
    ),
    Mutant(
        "a dead letter that was replaced stays",
        file=_SQLITE + "controls.sql#dead_take",
        was="DELETE FROM mainspring_dead WHERE message_id = ?1 AND group_name = ?2 RETURNING 1",
        becomes="SELECT 1 FROM mainspring_dead WHERE message_id = ?1 AND group_name = ?2",
        caught_by="tests/contract/test_dead_letters.py",
    ),
    # The coroutines that run handlers.
    Mutant(
        "a coroutine is woken for every message",
        file="runtime/crew.py",
        was="        if self._is_waking or self.closed:\n",
        becomes="        if self.closed:\n",
        caught_by=f"{_CREW}::test_work_that_never_waits_needs_no_wake_up_for_each_piece",
    ),
    Mutant(
        "a coroutine that is cancelled before it runs strands the queue",
        file="runtime/crew.py",
        was="        self._is_waking = False  # it may have been cancelled before it ran\n",
        becomes="",
        caught_by=f"{_CREW}::test_a_coroutine_that_is_cancelled_when_it_is_woken_strands_nothing",
    ),
    Mutant(
        "a coroutine that was woken lets no other be woken",
        file="runtime/crew.py",
        was="        try:\n            await waiter\n        finally:\n            self._is_waking = False\n",
        becomes="        await waiter\n",
        caught_by=f"{_CREW}::test_work_that_waits_is_done_by_as_many_coroutines_as_there_may_be",
    ),
    Mutant(
        "batches linger in all slots of a worker",
        file="runtime/fetcher.py",
        was="            self._slots.filled()\n",
        becomes="            pass\n",
        caught_by="tests/runtime/test_shared_slots.py::test_batches_that_have_all_slots_do_not_linger",
    ),
    Mutant(
        "a claim that ends with the commit of its own transaction counts as lost",
        file="app/transaction/consumers.py",
        was="        _judge(run, judged=True)\n",
        becomes="        pass\n",
        caught_by="tests/integration/transactional/test_ends.py"
        "::test_a_claim_that_ends_with_its_own_commit_is_not_lost",
    ),
]
