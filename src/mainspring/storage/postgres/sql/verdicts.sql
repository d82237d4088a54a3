-- Settling.

-- name: settle
-- $1 seqs in rising order, each once, $2 epochs, $3 message ids, $4 verdicts, $5 keeps, $6 durations, $7 delays, $8 kinds,
-- $9 errors, $10 tracebacks, $11 outputs, $12 places in the batch, $13 fingerprints; $14 owner, $15 its name, $16 now. Returns
-- (seq, epoch, message id, what) for every claim that was not written: 'lost', 'gone', or 'busy' where another session has
-- locked the row, perhaps for long: it is not waited for.
WITH verdict AS MATERIALIZED (
    SELECT v.*
    FROM unnest(
        $1::bigint[], $2::integer[], $3::uuid[], $4::text[], $5::text[], $6::interval[], $7::interval[], $8::text[],
        $9::text[], $10::text[], $11::text[], $12::integer[], $13::text[]
    ) AS v (
        seq, asked_epoch, asked_message, name, keep, took, delay, kind, error, traceback, output, position, fingerprint
    )
),
-- Locked in the order of $1, as every statement locks several, so that there is no deadlock. The lock also
-- shows the row as it is now, not as it was when the statement began.
found AS MATERIALIZED (
    SELECT
        d.*, verdict.asked_epoch, verdict.asked_message, verdict.name, verdict.keep, verdict.took, verdict.kind,
        verdict.error, verdict.traceback, verdict.output, verdict.position, verdict.fingerprint,
        coalesce(d.epoch = verdict.asked_epoch AND d.message_id = verdict.asked_message AND d.held_by = $14, false) AS is_ours
    FROM verdict
    CROSS JOIN LATERAL (SELECT * FROM mainspring.delivery WHERE seq = verdict.seq FOR UPDATE SKIP LOCKED) AS d
),
ours AS MATERIALIZED (
    SELECT
        found.*,
        m.topic,
        NOW($16) AS now,
        -- A delivery that was asked to stop never runs again, whatever its handler returned.
        CASE
            WHEN found.cancel_asked AND found.name IN ('retry', 'snooze', 'release') THEN 'cancel'
            WHEN found.name = 'replace' THEN 'bury'
            ELSE found.name
        END AS becomes,
        found.name = 'replace' AND found.schedule IS NOT NULL AND NOT found.manual AS replaces
    FROM found
    CROSS JOIN LATERAL (SELECT topic FROM mainspring.message WHERE id = found.message_id OFFSET 0) AS m
    WHERE found.is_ours
),
removed AS (
    DELETE FROM mainspring.delivery
    WHERE seq = ANY (ARRAY(SELECT ours.seq FROM ours WHERE ours.becomes IN ('done', 'bury', 'cancel')))
),
-- width_bucket finds the place of a seq in $1 by bisection: every row has its own delay without a join. A delay goes by its
-- seconds: a day has 24 hours, whatever the session's zone does to its clocks.
retried AS (
    UPDATE mainspring.delivery
    SET held_by = NULL,
        claimed_at = NULL,
        suspect = false,
        due_at = NOW($16)
            + make_interval(secs => extract(epoch FROM ($7::interval[])[width_bucket(seq, $1::bigint[])])::float8)
    WHERE seq = ANY (ARRAY(SELECT ours.seq FROM ours WHERE ours.becomes = 'retry'))
),
forgiven AS (
    UPDATE mainspring.delivery
    SET held_by = NULL,
        claimed_at = NULL,
        suspect = false,
        due_at = NOW($16)
            + make_interval(secs => extract(epoch FROM ($7::interval[])[width_bucket(seq, $1::bigint[])])::float8),
        -- epoch never goes back: it is the fence (invariant 2). Only the attempt count forgives.
        attempt = greatest(attempt - 1, 0)
    WHERE seq = ANY (ARRAY(SELECT ours.seq FROM ours WHERE ours.becomes IN ('snooze', 'release')))
),
-- One dead letter per schedule, group and content: the latest of the batch, and with it the number of the others. An
-- occurrence with another payload is other work, no repetition.
latest AS MATERIALIZED (
    SELECT DISTINCT ON (o.schedule, o.group_name, o.topic, m.content_type, m.payload)
        o.seq, o.schedule, o.group_name, o.topic, m.content_type, m.payload, o.scheduled_for,
        count(*) OVER (PARTITION BY o.schedule, o.group_name, o.topic, m.content_type, m.payload) - 1 AS others
    FROM ours AS o
    CROSS JOIN LATERAL (SELECT content_type, payload FROM mainspring.message WHERE id = o.message_id OFFSET 0) AS m
    WHERE o.replaces
    ORDER BY o.schedule, o.group_name, o.topic, m.content_type, m.payload, o.scheduled_for DESC, o.seq DESC
),
-- What another session has locked, an operator perhaps, stays until the next one dies.
repeated AS MATERIALIZED (
    SELECT e.seq, latest.seq AS latest_seq
    FROM latest
    CROSS JOIN LATERAL (
        SELECT seq
        FROM mainspring.dead
        WHERE schedule = latest.schedule
          AND group_name = latest.group_name
          AND topic = latest.topic
          AND scheduled_for <= latest.scheduled_for
          AND NOT manual
          AND (
            SELECT m.content_type = latest.content_type AND m.payload = latest.payload
            FROM mainspring.message AS m
            WHERE m.id = dead.message_id
          )
        FOR UPDATE SKIP LOCKED
    ) AS e
),
replaced AS (
    DELETE FROM mainspring.dead
    WHERE seq = ANY (ARRAY(SELECT repeated.seq FROM repeated))
    RETURNING seq, message_id, repeats
),
buried AS (
    INSERT INTO mainspring.dead (
        seq, message_id, group_name, topic, key, priority, epoch, attempt, deaths, scheduled_for, published_at,
        kind, error, buried_at, schedule, manual, fingerprint, repeats
    )
    SELECT
        seq, message_id, group_name, topic, key, priority, epoch, attempt, deaths, scheduled_for, published_at,
        kind, error, now, schedule, manual, fingerprint,
        coalesce((SELECT latest.others FROM latest WHERE latest.seq = ours.seq), 0) + coalesce(
            (
                SELECT sum(r.repeats + 1)
                FROM replaced AS r
                WHERE ours.replaces
                  AND r.seq = ANY (ARRAY(SELECT repeated.seq FROM repeated WHERE repeated.latest_seq = ours.seq))
            ),
            0
        )
    FROM ours
    WHERE becomes = 'bury' AND (NOT replaces OR seq IN (SELECT latest.seq FROM latest))
),
forgotten AS (
    DELETE FROM mainspring.run
    WHERE id = ANY (
        ARRAY(
            SELECT r.id
            FROM ours
            CROSS JOIN LATERAL (
                SELECT id
                FROM mainspring.run
                WHERE message_id = ours.message_id
                  AND group_name = ours.group_name
                  AND status IN ('failed', 'snoozed', 'lost')
                -- What another session has locked stays until it is pruned.
                FOR UPDATE SKIP LOCKED
            ) AS r
            WHERE ours.becomes = 'done' AND ours.keep = 'none' AND ours.attempt > 1
        )
    )
),
-- A failed run is kept whatever is to be kept: should the delivery end as a dead letter, it has every error.
remembered AS (
    INSERT INTO mainspring.run (
        message_id, group_name, topic, attempt, status, started_at, finished_at, node, kind, error, traceback, output,
        schedule, source, scheduled_for
    )
    SELECT
        ours.message_id, ours.group_name, ours.topic, ours.attempt, entry.status, ours.now - ours.took, ours.now,
        $15::text,
        CASE WHEN entry.status <> 'cancelled' THEN ours.kind END,
        CASE WHEN entry.status = 'cancelled' AND ours.name <> 'cancel' THEN 'cancelled while running'
            ELSE ours.error END,
        CASE WHEN entry.status <> 'cancelled' THEN ours.traceback END,
        CASE WHEN entry.status <> 'cancelled' THEN ours.output END,
        ours.schedule,
        CLAIM_SOURCE(ours),
        ours.scheduled_for
    FROM ours JOIN (
        VALUES (1, 'failed'), (2, 'dead'), (3, 'cancelled'), (4, 'done'), (5, 'snoozed')
    ) AS entry (place, status) ON CASE entry.status
        WHEN 'failed' THEN ours.name = 'retry'
        WHEN 'dead' THEN ours.becomes = 'bury'
        WHEN 'cancelled' THEN ours.becomes = 'cancel'
        WHEN 'done' THEN ours.becomes = 'done' AND ours.keep = 'all'
        ELSE ours.becomes = 'snooze' AND ours.keep = 'all'
    END
    ORDER BY ours.position, entry.place
),
-- The ends of members are only noted, which waits for nothing: they are counted later, by the next look.
joined AS (
    INSERT INTO mainspring.joint_end (join_id, done, failed)
    SELECT join_id, count(*) FILTER (WHERE becomes = 'done'), count(*) FILTER (WHERE becomes <> 'done')
    FROM ours
    WHERE join_id IS NOT NULL AND becomes IN ('done', 'bury', 'cancel')
    GROUP BY join_id
),
-- A row for each group and kind of what was handled, and one for all that was cancelled.
ended AS (
    INSERT INTO mainspring.ended (at, size, second, message_ids, group_name, kind, held_by)
    SELECT NOW($16), count(DISTINCT over.message_id), false, array_agg(DISTINCT over.message_id), over.handled, over.kind, $14
    FROM (
        SELECT
            message_id,
            CASE WHEN becomes = 'done' THEN group_name END AS handled,
            CASE WHEN becomes = 'done' THEN KIND(ours, ours.published_at) END AS kind
        FROM ours
        WHERE becomes IN ('done', 'cancel') OR (replaces AND seq NOT IN (SELECT latest.seq FROM latest))
        UNION ALL
        SELECT message_id, NULL, NULL FROM replaced
    ) AS over
    GROUP BY over.handled, over.kind
)
SELECT
    found.seq,
    found.asked_epoch,
    found.asked_message,
    CASE
        WHEN found.epoch <> found.asked_epoch OR found.message_id <> found.asked_message OR found.held_by <> $14 THEN 'lost'
        ELSE 'gone'
    END
FROM found
WHERE NOT found.is_ours
UNION ALL
SELECT
    verdict.seq,
    verdict.asked_epoch,
    verdict.asked_message,
    coalesce(
        (
            SELECT
                CASE
                    WHEN d.epoch <> verdict.asked_epoch OR d.message_id <> verdict.asked_message OR d.held_by <> $14 THEN 'lost'
                    WHEN d.held_by IS NULL THEN 'gone'
                    ELSE 'busy'
                END
            FROM mainspring.delivery AS d
            WHERE d.seq = verdict.seq
        ),
        'gone'
    )
FROM verdict
WHERE verdict.seq NOT IN (SELECT found.seq FROM found)

-- name: settle_done
-- $1 seqs in rising order, each once, $2 epochs, $3 message ids, $4 owner, $5 now: plain successes of which nothing is kept.
-- Returns (seq, epoch, message id, what) for every claim that was not written: 'lost', 'gone', or 'busy' where another session
-- has locked the row, perhaps for long: it is not waited for.
--
-- width_bucket finds the place of a seq in $1 by bisection, so every row is compared with its own claim without a join. What is
-- locked is found again by its place in the table, which is half the price of looking it up a second time.
WITH held AS MATERIALIZED (
    SELECT d.ctid AS place
    FROM mainspring.delivery AS d
    WHERE d.seq = ANY ($1::bigint[])
      AND d.epoch = ($2::integer[])[width_bucket(d.seq, $1::bigint[])]
      AND d.message_id = ($3::uuid[])[width_bucket(d.seq, $1::bigint[])]
      -- Not written held_by = $4: that would let the planner read all that is held instead of what is named.
      AND coalesce(d.held_by, '') = $4
    FOR UPDATE SKIP LOCKED
),
done AS (
    DELETE FROM mainspring.delivery AS d
    WHERE d.ctid = ANY (ARRAY(SELECT held.place FROM held))
    RETURNING d.seq, d.message_id, d.group_name, KIND(d, d.published_at) AS kind
),
ended AS (
    INSERT INTO mainspring.ended (at, size, second, message_ids, group_name, kind, held_by)
    SELECT NOW($5), count(*), false, array_agg(done.message_id), done.group_name, done.kind, $4
    FROM done
    GROUP BY done.group_name, done.kind
)
SELECT
    claim.seq,
    claim.epoch,
    claim.message_id,
    coalesce(
        (
            SELECT
                CASE
                    WHEN d.epoch <> claim.epoch OR d.message_id <> claim.message_id OR d.held_by <> $4 THEN 'lost'
                    WHEN d.held_by IS NULL THEN 'gone'
                    ELSE 'busy'
                END
            FROM mainspring.delivery AS d
            WHERE d.seq = claim.seq
        ),
        'gone'
    )
FROM unnest($1::bigint[], $2::integer[], $3::uuid[]) AS claim (seq, epoch, message_id)
WHERE (SELECT count(*) FROM done) < cardinality($1)
  AND claim.seq NOT IN (SELECT done.seq FROM done)

-- name: settle_wait
-- $1 seqs, $2 for how many milliseconds at the most, null: as long as its session waits for any lock. For a caller's own
-- transaction, which waits for a row as for any other of its own: a heartbeat may be at it. A shorter lock_timeout of its own
-- stays, and what it was is set again: each step reads from the one before, so that they are taken in this order.
WITH before AS MATERIALIZED (
    SELECT current_setting('lock_timeout') AS was
),
bounded AS MATERIALIZED (
    SELECT
        was,
        set_config(
            'lock_timeout',
            CASE
                WHEN $2::text IS NULL THEN was
                WHEN was::interval > interval '0' AND was::interval <= interval '1 millisecond' * $2::text::integer THEN was
                ELSE $2::text
            END,
            true
        ) AS now
    FROM before
),
waited AS MATERIALIZED (
    SELECT d.seq
    FROM bounded
    CROSS JOIN LATERAL (
        SELECT seq
        FROM mainspring.delivery
        WHERE seq = ANY ($1::bigint[]) AND bounded.now IS NOT NULL
        ORDER BY seq
        FOR UPDATE
    ) AS d
)
SELECT set_config('lock_timeout', bounded.was, true)
FROM bounded
CROSS JOIN (SELECT count(*) FROM waited) AS waited_for
