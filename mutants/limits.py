"""Order by key, limits, uniqueness, fan-out, joins and work queues."""

from __future__ import annotations

from mutants.mutant import Mutant

# Order and limits
LIMITS = [
    Mutant(
        "what its holder has just handed back is taken over as a suspect",
        file="storage/postgres/sql/limits.sql#limited_hold",
        was="          AND num_nulls(held_by) = CASE WHEN $3 THEN 0 ELSE 1 END\n",
        becomes="",
        caught_by="tests/integration/postgres/test_limits.py::test_what_its_holder_has_just_handed_back_is_no_suspect",
    ),
    Mutant(
        "a claim that was just extended is taken over",
        file="storage/postgres/sql/limits.sql#limited_hold",
        was="          AND due_at <= NOW($10)\n",
        becomes="",
        caught_by="tests/integration/postgres/test_limits.py"
        "::test_a_claim_that_its_holder_has_just_extended_is_not_taken_over",
    ),
    Mutant(
        "two claim at once under the limits of one group",
        file="storage/postgres/sql/limits.sql#limited_turn",
        was="ON CONFLICT (group_name) DO UPDATE SET turn = l.turn + 1\n",
        becomes="ON CONFLICT (group_name) DO NOTHING\n",
        caught_by="tests/integration/postgres/test_limits.py"
        "::test_in_a_snapshot_that_is_too_old_a_turn_fails_instead_of_counting_wrongly",
    ),
    Mutant(
        "the limit of a group counts only what one call takes",
        file="storage/portable/limits.py",
        was="limits.global_concurrency - sum(held.values()))",
        becomes="limits.global_concurrency)",
        caught_by="tests/contract/test_limits.py::test_so_many_of_a_group_at_once_whatever_their_keys",
    ),
    Mutant(
        "a rate has room again before its window is over",
        file="storage/postgres/sql/limits.sql#limited_hold",
        was="/ counted.slot * counted.slot + counted.slot + counted.per",
        becomes="/ counted.slot * counted.slot + counted.per",
        caught_by="tests/contract/test_limits.py::test_what_a_rate_has_spent_comes_back_a_slot_after_its_window",
    ),
    Mutant(
        "a rate does not count what is taken over",
        file="storage/postgres/sql/limits.sql#limited_hold",
        was="    WHERE $6::bigint IS NOT NULL\n",
        becomes="    WHERE $6::bigint IS NOT NULL AND NOT $3\n",
        caught_by="tests/contract/test_limits.py::test_a_rate_counts_what_is_reaped",
    ),
    Mutant(
        "of the claims within one slot of a rate only the last are counted",
        file="storage/sqlite/sql/limits.sql#limited_spend",
        was="SET claims = claims + excluded.claims",
        becomes="SET claims = excluded.claims",
        caught_by="tests/contract/test_limits.py::test_claimed_by_many_at_once_no_limit_is_exceeded",
    ),
    Mutant(
        "while the first of a key cannot be had its second goes",
        file="storage/portable/limits.py",
        was="                if self._limits.ordered:\n                    self._out_of_reach.add(key)\n",
        becomes="",
        caught_by="tests/integration/postgres/test_limits.py"
        "::test_while_another_has_just_claimed_the_first_of_a_key_its_second_is_not_taken",
    ),
    Mutant(
        "a message that was put off is overtaken by the next of its key",
        file="storage/postgres/sql/limits.sql#limited_heads",
        was="OR ($3 AND NOT ($4 AND d.attempt > 0))",
        becomes="OR ($3 AND NOT $4)",
        caught_by="tests/contract/test_limits.py::test_skipping_waits_for_a_snooze_which_is_no_failure",
    ),
    Mutant(
        "under an order a key goes by what is due instead of by what was published",
        file="storage/sqlite/sql/limits.sql#limited_heads",
        was="        ORDER BY seq\n        LIMIT ?5\n",
        becomes="        ORDER BY due_at, seq\n        LIMIT ?5\n",
        caught_by="tests/contract/test_limits.py::test_a_cancelled_head_is_out_of_the_way_and_a_delayed_one_is_not",
    ),
    Mutant(
        "what has no key is not found behind two thousand that have to wait",
        file="storage/portable/limits.py",
        was="        if after is None:\n",
        becomes="        if after is not None:\n",
        caught_by="tests/contract/test_limits.py::test_what_has_no_key_is_found_behind_however_many_that_have_to_wait",
    ),
]

# Uniqueness
LIKENESS = [
    Mutant(
        "of two that are alike and published at once both are stored",
        file="storage/postgres/migrations/0011_unique.sql",
        was="""\
    INSERT INTO mainspring.likeness AS l (published_at, until, message_id, hash)
    VALUES (moment, moment + $6, $2, $1)
    ON CONFLICT (hash) DO UPDATE SET until = greatest(l.until, l.published_at + $6)
    RETURNING l.* INTO known;
""",
        becomes="""\
    SELECT l.* INTO known FROM mainspring.likeness AS l WHERE l.hash = $1;
    IF NOT FOUND THEN
        INSERT INTO mainspring.likeness AS l (published_at, until, message_id, hash)
        VALUES (moment, moment + $6, $2, $1)
        ON CONFLICT (hash) DO UPDATE SET message_id = excluded.message_id
        RETURNING l.* INTO known;
    END IF;
""",
        caught_by="tests/integration/postgres/test_unique.py::test_who_comes_second_waits_for_how_the_first_one_ends",
    ),
    Mutant(
        "a window of uniqueness ends later than it says",
        file="storage/sqlite/mailbox.py",
        was="return published > before(at, key.window)",
        becomes="return published >= before(at, key.window)",
        caught_by="tests/contract/test_unique.py::test_a_window_counts_from_when_the_first_was_stored",
    ),
    Mutant(
        "what is replaced stays beside what replaces it",
        file="storage/sqlite/mailbox.py",
        was='    if earlier is not None and key.keep == "last":\n',
        becomes='    if earlier is None and key.keep == "last":\n',
        caught_by="tests/contract/test_unique.py::test_each_of_many_is_replaced_by_the_next",
    ),
    Mutant(
        "what a worker has just taken is replaced while it runs",
        file="storage/postgres/sql/publish.sql#unique_replace",
        was="WHERE seq = seen.seq AND epoch = 0 FOR UPDATE",
        becomes="WHERE seq = seen.seq FOR UPDATE",
        caught_by="tests/integration/postgres/test_unique.py::test_what_a_worker_has_just_taken_is_not_replaced",
    ),
]

# Joins
JOINS = [
    Mutant(
        "the end of a member is counted again by every look",
        file="storage/postgres/sql/joins.sql#joint_count",
        was="            WHERE taken.join_id IN (SELECT seen.id FROM seen)\n               OR NOT EXISTS",
        becomes="            WHERE NOT EXISTS",
        caught_by="tests/contract/test_joins.py::test_what_follows_is_published_when_the_last_member_is_done",
    ),
    Mutant(
        "two that recount a join at once count a member twice",
        file="storage/postgres/sql/joins.sql#joint_recount",
        was="WHERE id = gone.id AND pending = gone.pending FOR UPDATE SKIP LOCKED",
        becomes="WHERE id = gone.id FOR UPDATE SKIP LOCKED",
        caught_by="tests/integration/postgres/test_recounting.py::test_who_saw_before_another_recounted_writes_nothing",
    ),
    Mutant(
        "a member that failed counts as done",
        file="storage/postgres/sql/verdicts.sql#settle",
        was="count(*) FILTER (WHERE becomes = 'done'), count(*) FILTER (WHERE becomes <> 'done')",
        becomes="count(*), 0",
        caught_by="tests/contract/test_joins.py::test_one_that_failed_makes_it_fail_when_all_have_ended",
    ),
    Mutant(
        "what follows a join is published again by every look",
        file="storage/sqlite/coordination.py",
        was='            yield self._sql("joint_delete", raw)\n',
        becomes="            yield from ()\n",
        caught_by="tests/contract/test_joins.py::test_it_is_published_once",
    ),
]

# Fan-out
FANOUTS = [
    Mutant(
        "a cursor goes past what was planned",
        file="storage/portable/sql/fanouts.sql#fanout_advance",
        was=" AND planned >= $4",
        becomes="",
        caught_by="tests/contract/test_fanouts.py::test_a_cursor_goes_no_further_than_what_was_planned",
    ),
    Mutant(
        "a cursor goes back when an earlier window comes late",
        file="storage/portable/sql/fanouts.sql#fanout_advance",
        was="completed < $4",
        becomes="completed <> $4",
        caught_by="tests/contract/test_fanouts.py::test_a_cursor_only_goes_on",
    ),
    Mutant(
        "a cursor is moved by hand while its slice is unfinished",
        file="storage/portable/coordination.py",
        was="[each.shard for each in free if not each.is_unfinished]",
        becomes="[each.shard for each in free]",
        caught_by="tests/contract/test_fanouts.py::test_a_cursor_whose_slice_is_unfinished_is_not_moved",
    ),
    Mutant(
        "a header from outside advances a cursor",
        file="model/fanout.py",
        was=" or str(slice_id(name)) not in (str(delivery.message_id), headers.get(REPLACES_HEADER)):",
        becomes=":",
        caught_by="tests/integration/app/test_reserved_headers.py"
        "::test_a_message_that_names_a_slice_which_failed_does_not_complete_it",
    ),
    Mutant(
        "a coordinator plans on under an earlier epoch of its lease",
        file="storage/portable/coordination.py",
        was='if not (yield self._sql.opening("lease_confirm", *batch.hold, at)):',
        becomes='if (yield self._sql.opening("lease_confirm", *batch.hold, at)) is None:',
        caught_by="tests/contract/test_fanouts.py::test_who_has_lost_the_lease_plans_nothing",
    ),
    Mutant(
        "a slice that is put off advances its cursor",
        file="app/consume/middleware.py",
        was=" or not isinstance(verdicts.of_result(result), Done):",
        becomes=":",
        caught_by="tests/unit/testing/test_fanouts.py::test_only_success_advances_a_cursor",
    ),
    Mutant(
        "a slice that is put off in its transaction advances its cursor",
        file="app/transaction/consumers.py",
        was="                if isinstance(settlement.verdict, Done):\n                    yield",
        becomes="                if settlement.verdict is not None:\n                    yield",
        caught_by="tests/integration/app/test_fanouts.py"
        "::test_a_slice_that_is_put_off_in_its_transaction_leaves_its_cursor",
    ),
    Mutant(
        "a slice that ran out of time advances its cursor",
        file="app/consume/middleware.py",
        was=" or run.stop_reason in _FAILED or",
        becomes=" or",
        caught_by="tests/integration/app/test_fanouts.py"
        "::test_a_slice_that_ends_well_after_its_time_was_over_leaves_its_cursor",
    ),
]

# Work queues
_RELEASE = "tests/contract/test_release.py"
_TOKENS = "tests/unit/app/test_queue_tokens.py"
QUEUES = [
    Mutant(
        "a queue acknowledges what another has claimed since",
        file="app/queue/item.py",
        was="        if item.claim in answer.lost:\n            lost.append(item)\n        elif",
        becomes="        if",
        caught_by="tests/unit/app/test_queue_fences.py"
        "::test_a_lost_claim_settles_nothing_and_its_neighbours_are_settled",
    ),
    Mutant(
        "a queue takes what another has settled for its own",
        file="app/queue/item.py",
        was="ours = held(item).unconfirmed and not enlisted",
        becomes="ours = not enlisted",
        caught_by="tests/unit/app/test_queue_fences.py::test_who_comes_late_is_told_even_if_the_other_has_finished",
    ),
    Mutant(
        "items that were claimed under several names are settled under one",
        file="app/queue/item.py",
        was="found.setdefault(owners[each.claim], [])",
        becomes="found.setdefault(next(iter(owners.values())), [])",
        caught_by="tests/integration/app/test_queues.py"
        "::test_items_that_were_claimed_under_several_names_are_kept_and_settled_by_one_call",
    ),
    Mutant(
        "items that were claimed under several names are extended under one",
        file="app/queue/item.py",
        was="found.setdefault(held(item).owner, [])",
        becomes="found.setdefault(held(items[0]).owner, [])",
        caught_by="tests/integration/app/test_queues.py"
        "::test_items_that_were_claimed_under_several_names_are_kept_and_settled_by_one_call",
    ),
    Mutant(
        "a release frees a claim that has not lapsed, on SQLite",
        file="storage/sqlite/sql/claims.sql#release_scan",
        was=" AND d.due_at <= ?2",
        becomes=" AND ?2 > 0",
        caught_by=_RELEASE + "::test_a_claim_that_has_not_lapsed_is_not_touched",
    ),
    Mutant(
        "a release takes a live claim for a lapsed one, on PostgreSQL",
        file="storage/postgres/sql/claims.sql#release",
        was="      AND d.due_at <= NOW($7)\n      AND (d.due_at, d.seq)",
        becomes="      AND (d.due_at, d.seq)",
        caught_by=_RELEASE + "::test_a_claim_that_has_not_lapsed_is_not_touched",
    ),
    Mutant(
        "a release frees a suspect, so that its death is not counted",
        file="storage/portable/sql/ledger.sql",
        was="        d.suspect\n        OR d.deaths > 0\n",
        becomes="        d.deaths > 0\n",
        caught_by="tests/integration/app/test_queues.py"
        "::test_a_suspect_whose_lost_run_was_not_stored_is_not_released_with_the_others",
    ),
    Mutant(
        "a release frees what has cost a process",
        file="storage/portable/sql/ledger.sql",
        was="        OR d.deaths > 0\n",
        becomes="",
        caught_by=_RELEASE + "::test_what_has_died_before_is_left_though_it_was_handed_back_since",
    ),
    Mutant(
        "a release frees a poisonous message again and again",
        file="storage/portable/sql/ledger.sql",
        was="r.attempt = d.attempt - 1",
        becomes="r.attempt = d.attempt - 2",
        caught_by=_RELEASE + "::test_what_lapses_again_after_a_release_is_left_so_that_it_is_buried_in_the_end",
    ),
    Mutant(
        "the late holder of a released claim takes it for settled, on PostgreSQL",
        file="storage/postgres/sql/claims.sql#release",
        was="epoch = d.epoch + 1",
        becomes="epoch = d.epoch",
        caught_by=_RELEASE + "::test_its_late_holder_is_told_that_the_claim_is_lost",
    ),
    Mutant(
        "the late holder of a released claim takes it for settled, on SQLite",
        file="storage/sqlite/sql/claims.sql#release_free",
        was=", epoch = epoch + 1",
        becomes="",
        caught_by=_RELEASE + "::test_its_late_holder_is_told_that_the_claim_is_lost",
    ),
    Mutant(
        "a release waits for rows that others have locked",
        file="storage/postgres/sql/claims.sql#release",
        was="        FOR UPDATE SKIP LOCKED\n",
        becomes="        FOR UPDATE\n",
        caught_by="tests/integration/postgres/test_strangers.py"
        "::test_lapsed_claims_that_are_locked_are_passed_over_by_a_release_and_counted",
    ),
    Mutant(
        "a token is the right to settle for any holder of the same claim",
        file="app/queue/token.py",
        was="return hmac.compare_digest(self.proof.encode(), proof(holder, self.claim).encode())",
        becomes="return True",
        caught_by=_TOKENS + "::test_a_token_with_another_id_epoch_message_or_proof_reads_nothing_back",
    ),
    Mutant(
        "a token of another group is accepted",
        file="app/queue/token.py",
        was="    if group != settings.group:\n",
        becomes="    if False:\n",
        caught_by=_TOKENS + "::test_a_token_of_another_group_is_refused_also_where_it_names_this_one",
    ),
    Mutant(
        "a token that names this group reads back an item of another",
        file="app/queue/queue.py",
        was="        check_group_of(found.delivery.group, self._settings)\n",
        becomes="",
        caught_by=_TOKENS + "::test_a_token_of_another_group_is_refused_also_where_it_names_this_one",
    ),
    Mutant(
        "a token of another namespace is accepted",
        file="app/queue/token.py",
        was="    if token.tables != settings.tables:\n",
        becomes="    if False:\n",
        caught_by=_TOKENS + "::test_a_token_of_another_namespace_is_refused",
    ),
    Mutant(
        "a claim is read back in an epoch that has passed",
        file="storage/portable/sql/ledger.sql#held",
        was=" AND d.epoch = $2",
        becomes=" AND $2::integer IS NOT NULL",
        caught_by="tests/contract/test_held.py::test_another_id_epoch_or_message_holds_nothing",
    ),
    Mutant(
        "a suspect that was settled by its token goes on blocking its process",
        file="app/consume/queue_registry.py",
        was="each.fence not in fences",
        becomes="all(each is not one for one in answered)",
        caught_by=_TOKENS + "::test_a_suspect_that_is_settled_by_its_token_in_this_process_lets_the_next_one_come",
    ),
    Mutant(
        "a suspect that was read back does not count as in hand",
        file="app/queue/queue.py",
        was="        if delivery.suspect:\n            self._runtime.queues.suspect(one, now)\n",
        becomes="",
        caught_by=_TOKENS + "::test_a_process_that_has_read_back_a_suspect_takes_none_beside_it",
    ),
    Mutant(
        "a process that ends does not hand back what was claimed for a cancelled call",
        file="app/connection.py",
        was="        if self._under_way:\n            await asyncio.wait(self._under_way)\n",
        becomes="        return\n",
        caught_by="tests/unit/app/test_queue_waiting.py"
        "::test_what_was_claimed_for_somebody_who_is_cancelled_is_handed_back_before_the_app_is_closed",
    ),
]

# The slots that the consumers of a worker share
_SLOTS = "tests/unit/runtime/test_slots.py"
_SHARING = "tests/runtime/test_shared_slots.py"
SLOTS = [
    Mutant(
        "a consumer with limits takes slots over the cap of its worker",
        file="runtime/fetcher.py",
        was="        if self._slots is not None:\n            limits, pause",
        becomes="        if self._slots is not None and len(self._executors) > 1:\n            limits, pause",
        caught_by=f"{_SHARING}::test_there_is_never_more_at_once_than_the_cap",
    ),
    Mutant(
        "a slot that is free again wakes its own group only",
        file="runtime/fetchers.py",
        was="            self._slots.freed()\n",
        becomes="            pass\n",
        caught_by=f"{_SHARING}::test_the_end_of_a_run_wakes_the_group_that_found_no_slot",
    ),
    Mutant(
        "the first group of a worker gets every free slot",
        file="runtime/slots.py",
        was="        for group in (*self._line, *sorted(newcomers, key=patient.__contains__)):\n",
        becomes="        for group in wanted:\n",
        caught_by=f"{_SLOTS}::test_each_gets_its_turn_whichever_fetcher_asks_first",
    ),
    Mutant(
        "a slot is not left to the group whose turn it is",
        file="runtime/slots.py",
        was="                free -= 1  # another fetcher comes for it\n",
        becomes="                pass\n",
        caught_by=_SLOTS,
    ),
    Mutant(
        "a group whose fetcher hangs keeps a slot from all others",
        file="runtime/slots.py",
        was="            elif now - self._line[group].woken_at <= TAKEN_WITHIN:\n",
        becomes="            else:\n",
        caught_by=_SLOTS,
    ),
    Mutant(
        "claims on their way take no slot",
        file="runtime/slots.py",
        was="        self._asked += sum(shares.values())\n",
        becomes="        self._asked += 0\n",
        caught_by=f"{_SLOTS}::test_slots_of_claims_on_their_way_are_taken",
    ),
    Mutant(
        "a suspect is taken over the cap of its worker",
        file="runtime/fetcher.py",
        was="            if self._slots is not None and self._slots.free <= 0:\n                return FOREVER\n",
        becomes="",
        caught_by=f"{_SHARING}::test_suspects_are_taken_within_the_cap",
    ),
    Mutant(
        "groups without work stand in line for every slot",
        file="runtime/fetcher.py",
        was="        return now - scanned_at < FULL_AFTER_SHORT or scanned_at > self._stirred_at\n",
        becomes="        return scanned_at > self._stirred_at\n",
        caught_by=f"{_SHARING}::test_groups_without_work_cost_a_busy_one_few_trips",
    ),
]

MUTANTS: list[Mutant] = [*LIMITS, *SLOTS, *LIKENESS, *JOINS, *FANOUTS, *QUEUES]
