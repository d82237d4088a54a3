-- What operators do, and cancels.

-- part: CANCELLED(reason, channel, at)
-- Of what is live and locked, removes what is unheld and asks the holders of the rest to stop; and removes what is
-- unrouted. Runs remember both.
waiting AS MATERIALIZED (
    SELECT p.*
    FROM unrouted
    CROSS JOIN LATERAL (
        SELECT seq, message_id, scheduled_for, published_at, schedule, manual
        FROM mainspring.parked
        WHERE seq = unrouted.seq
        FOR UPDATE
    ) AS p
),
removed AS (
    DELETE FROM mainspring.delivery
    WHERE seq = ANY (ARRAY(SELECT live.seq FROM live WHERE live.held_by IS NULL))
),
unparked AS (
    DELETE FROM mainspring.parked
    WHERE seq = ANY (ARRAY(SELECT waiting.seq FROM waiting))
),
asked AS (
    UPDATE mainspring.delivery
    SET cancel_asked = true
    WHERE seq = ANY (ARRAY(SELECT live.seq FROM live WHERE live.held_by IS NOT NULL AND NOT live.cancel_asked))
),
over AS MATERIALIZED (
    SELECT seq, message_id, group_name, attempt, scheduled_for, published_at, schedule, manual
    FROM live
    WHERE held_by IS NULL
    UNION ALL
    SELECT seq, message_id, '', 0, scheduled_for, published_at, schedule, manual
    FROM waiting
),
remembered AS (
    INSERT INTO mainspring.run (
        message_id, group_name, topic, attempt, status, started_at, finished_at, error, schedule, source, scheduled_for
    )
    SELECT
        over.message_id, over.group_name, m.topic, over.attempt, 'cancelled', {at}, {at}, {reason}, over.schedule,
        RUN_SOURCE(over), over.scheduled_for
    FROM over
    CROSS JOIN LATERAL (SELECT topic FROM mainspring.message WHERE id = over.message_id OFFSET 0) AS m
    ORDER BY over.message_id, over.seq
),
joined AS (
    INSERT INTO mainspring.joint_end (join_id, done, failed)
    SELECT live.join_id, 0, count(*)
    FROM live
    WHERE live.held_by IS NULL AND live.join_id IS NOT NULL
    GROUP BY live.join_id
    RETURNING join_id
),
-- No worker has ended them, so none would look by itself before its next poll. A statement that uses this part selects
-- FROM rung, because nothing else would have it run.
rung AS MATERIALIZED (
    SELECT count(mainspring.ring({channel}, '')) FROM (SELECT FROM joined LIMIT 1) AS one
),
ENDED(over, {at})

-- part: ENDED(rows, at)
-- Their messages may be unreferenced from now on: pruning examines them later.
ended AS (
    INSERT INTO mainspring.ended (at, size, second, message_ids)
    SELECT {at}, count(DISTINCT {rows}.message_id), false, array_agg(DISTINCT {rows}.message_id)
    FROM {rows}
    HAVING count(*) > 0
)

-- part: RUNG(rows, channel, at)
-- Rings for the groups of rows that are due now. A statement that uses this part selects FROM rung.
rung AS MATERIALIZED (
    SELECT count(mainspring.ring({channel}, bell.group_name))
    FROM mainspring.bell
    WHERE bell.armed_until > {at} AND bell.group_name IN (SELECT {rows}.group_name FROM {rows})
)

-- part: DEAD_CHOSEN()
($1::uuid IS NULL OR d.message_id = $1)
          AND ($2::text IS NULL OR d.group_name = $2)
          AND ($3::text IS NULL OR d.topic = $3)
          AND ($4::text IS NULL OR CONTAINS(d.error, $4))
          AND ($5::text IS NULL OR d.fingerprint = $5)

-- part: LIVE_COLUMNS()
seq, message_id, group_name, attempt, held_by, cancel_asked, scheduled_for, published_at, schedule, manual, join_id

-- name: cancel
-- $1 message id, or $2 topic and $3 key; $4 reason, $5 channel, $6 now.
-- One row: how many will never start, how many were asked to stop, and whether a parked message got away to its
-- groups while we waited for it, so that only a fresh look finds it.
WITH named AS MATERIALIZED (
    SELECT id FROM mainspring.message WHERE id = $1::uuid
    UNION ALL
    SELECT id FROM mainspring.message WHERE topic = $2::text AND key = $3::text
),
seen AS MATERIALIZED (
    SELECT d.seq
    FROM mainspring.delivery AS d
    WHERE d.message_id = ANY (ARRAY(SELECT named.id FROM named))
    ORDER BY d.seq + 0  -- not by the index that has this order: it would be read from end to end
),
-- Every statement that locks several deliveries does so in the order of their seq.
live AS MATERIALIZED (
    SELECT d.*
    FROM seen
    CROSS JOIN LATERAL (SELECT LIVE_COLUMNS() FROM mainspring.delivery WHERE seq = seen.seq FOR UPDATE) AS d
),
unrouted AS MATERIALIZED (
    SELECT p.seq
    FROM mainspring.parked AS p
    WHERE p.message_id = ANY (ARRAY(SELECT named.id FROM named))
    ORDER BY p.seq + 0
),
CANCELLED($4, $5, NOW($6))
SELECT
    (SELECT count(*) FROM over),
    (SELECT count(*) FROM live WHERE live.held_by IS NOT NULL),
    (SELECT count(*) FROM unrouted) > (SELECT count(*) FROM waiting)
FROM rung

-- name: cancel_picked
-- $1 messages, $2 groups: empty for what is parked; $3 by whom: null where a line of the audit is there; $4 how the choice is
-- spelled, $5 reason, $6 channel, $7 now. One row: how many will never start, and how many were asked to stop.
WITH seen AS MATERIALIZED (
    SELECT DISTINCT d.seq
    FROM unnest($1::uuid[], $2::text[]) AS p (message_id, group_name)
    CROSS JOIN LATERAL (
        SELECT seq FROM mainspring.delivery WHERE message_id = p.message_id AND group_name = p.group_name OFFSET 0
    ) AS d
    ORDER BY d.seq
),
live AS MATERIALIZED (
    SELECT d.*
    FROM seen
    CROSS JOIN LATERAL (SELECT LIVE_COLUMNS() FROM mainspring.delivery WHERE seq = seen.seq FOR UPDATE) AS d
),
unrouted AS MATERIALIZED (
    SELECT DISTINCT q.seq
    FROM unnest($1::uuid[], $2::text[]) AS p (message_id, group_name)
    CROSS JOIN LATERAL (
        SELECT seq FROM mainspring.parked WHERE message_id = p.message_id AND p.group_name = '' OFFSET 0
    ) AS q
    ORDER BY q.seq
),
CANCELLED($5::text, $6, NOW($7)),
noted AS (
    INSERT INTO mainspring.audit (at, by_whom, action, subject, detail)
    SELECT
        NOW($7), $3::text, 'cancel', $4,
        (SELECT count(*) FROM over) || ' cancelled, ' || (SELECT count(*) FROM live WHERE live.held_by IS NOT NULL)
            || ' asked to stop: ' || $5::text
    WHERE $3 IS NOT NULL AND (EXISTS (SELECT FROM over) OR EXISTS (SELECT FROM live))
)
SELECT (SELECT count(*) FROM over), (SELECT count(*) FROM live WHERE live.held_by IS NOT NULL)
FROM rung

-- name: drain
-- $1 worker, $2 by whom, $3 action, $4 detail, $5 whether it is to drain, $6 now. Returns one row when there is such a worker.
WITH told AS (
    UPDATE mainspring.worker
    SET draining_at = CASE
            WHEN $5::boolean THEN coalesce(draining_at, $6::timestamptz, statement_timestamp())
        END,
        drained_by = CASE WHEN $5 THEN $2::text END,
        drain_reason = CASE WHEN $5 THEN $4::text END
    WHERE name = $1
    RETURNING name
)
INSERT INTO mainspring.audit (at, by_whom, action, subject, detail)
SELECT NOW($6), $2, $3, told.name, $4
FROM told
RETURNING id

-- name: pause
-- $1 group, $2 by whom, $3 reason, $4 now. Returns one row when there is such a group.
WITH paused AS (
    UPDATE mainspring.groups
    SET paused_at = NOW($4), paused_by = $2, pause_reason = $3
    WHERE name = $1
    RETURNING name
)
INSERT INTO mainspring.audit (at, by_whom, action, subject, detail)
SELECT NOW($4), $2, 'pause', paused.name, $3
FROM paused
RETURNING id

-- name: replace
-- $1 message id, $2 group, $3 by whom, $4 detail, $5 now. Returns one row when there was such a dead letter.
WITH unburied AS (
    DELETE FROM mainspring.dead WHERE message_id = $1 AND group_name = $2 RETURNING message_id
),
ended AS (
    INSERT INTO mainspring.ended (at, size, second, message_ids)
    SELECT NOW($5), 1, false, ARRAY[unburied.message_id]
    FROM unburied
)
INSERT INTO mainspring.audit (at, by_whom, action, subject, detail)
SELECT NOW($5), $3, 'replace', unburied.message_id::text, $4
FROM unburied
RETURNING id

-- name: resume
-- $1 group, $2 by whom, $3 channel, $4 now. Returns one row when there is such a group.
WITH resumed AS (
    UPDATE mainspring.groups
    SET paused_at = NULL, paused_by = NULL, pause_reason = NULL
    WHERE name = $1
    RETURNING name
),
noted AS (
    INSERT INTO mainspring.audit (at, by_whom, action, subject, detail)
    SELECT NOW($4), $2, 'resume', resumed.name, ''
    FROM resumed
    RETURNING id
)
-- A woken worker finds out whether anything is due.
SELECT noted.id, mainspring.ring($3, $1)
FROM noted

-- name: retire
-- $1 group, $2 by whom, $3 limit, $4 channel, $5 now. Returns how many deliveries were dropped; no row: no such group.
WITH declared AS MATERIALIZED (
    SELECT g.name FROM mainspring.groups AS g WHERE g.name = $1 FOR UPDATE
),
-- First of all nothing more may come in, or the last delivery would never have gone.
unsubscribed AS (
    DELETE FROM mainspring.subscription WHERE group_name = (SELECT declared.name FROM declared)
),
-- Both indexes lead with the group; the whole table has none that does.
live AS MATERIALIZED (
    SELECT d.seq
    FROM declared CROSS JOIN LATERAL (
        (SELECT seq FROM mainspring.delivery WHERE group_name = declared.name AND held_by IS NULL LIMIT $3)
        UNION ALL
        (SELECT seq FROM mainspring.delivery WHERE group_name = declared.name AND held_by IS NOT NULL LIMIT $3)
    ) AS d
    LIMIT $3
),
taken AS MATERIALIZED (
    SELECT d.*
    FROM mainspring.delivery AS d
    WHERE d.seq = ANY (ARRAY(SELECT live.seq FROM live))
    ORDER BY d.seq
    FOR UPDATE
),
dropped AS (
    DELETE FROM mainspring.delivery WHERE seq = ANY (ARRAY(SELECT taken.seq FROM taken))
),
remembered AS (
    INSERT INTO mainspring.run (
        message_id, group_name, topic, attempt, status, started_at, finished_at, node, error, schedule, source,
        scheduled_for
    )
    SELECT
        taken.message_id, $1, m.topic, taken.attempt, 'cancelled', NOW($5),
        NOW($5),
        -- Its name, without the token of its start.
        regexp_replace(taken.held_by, '~[0-9a-f]{16}$', ''), 'group retired',
        taken.schedule,
        RUN_SOURCE(taken),
        taken.scheduled_for
    FROM taken
    CROSS JOIN LATERAL (SELECT topic FROM mainspring.message WHERE id = taken.message_id OFFSET 0) AS m
    ORDER BY taken.seq
),
joined AS (
    INSERT INTO mainspring.joint_end (join_id, done, failed)
    SELECT taken.join_id, 0, count(*)
    FROM taken
    WHERE taken.join_id IS NOT NULL
    GROUP BY taken.join_id
    RETURNING join_id
),
rung AS MATERIALIZED (
    SELECT count(mainspring.ring($4, '')) FROM (SELECT FROM joined LIMIT 1) AS one
),
ENDED(taken, NOW($5)),
forgotten AS (
    DELETE FROM mainspring.groups
    WHERE name = (SELECT declared.name FROM declared) AND NOT EXISTS (SELECT FROM live)
    RETURNING name
),
uncounted AS (
    DELETE FROM mainspring.tally WHERE group_name = (SELECT forgotten.name FROM forgotten)
),
silenced AS (
    DELETE FROM mainspring.bell WHERE group_name = (SELECT forgotten.name FROM forgotten)
),
unlimited AS (
    DELETE FROM mainspring.limits WHERE group_name = (SELECT forgotten.name FROM forgotten)
),
unspent AS (
    DELETE FROM mainspring.spent WHERE group_name = (SELECT forgotten.name FROM forgotten)
),
noted AS (
    INSERT INTO mainspring.audit (at, by_whom, action, subject, detail)
    SELECT
        NOW($5), $2, 'retire', declared.name,
        (SELECT count(*) FROM taken) || ' dropped'
    FROM declared
)
SELECT (SELECT count(*) FROM taken), (SELECT count(*) FROM live)
-- rung is named here because nothing else would have it run.
FROM declared, rung

-- name: run_now
-- $1 messages, $2 groups, $3 by whom: null where a line of the audit is there; $4 how the choice is spelled, $5 channel, $6 now.
-- One row: how many are due now.
WITH named AS MATERIALIZED (
    SELECT DISTINCT d.seq
    FROM unnest($1::uuid[], $2::text[]) AS p (message_id, group_name)
    CROSS JOIN LATERAL (
        SELECT seq FROM mainspring.delivery WHERE message_id = p.message_id AND group_name = p.group_name OFFSET 0
    ) AS d
    ORDER BY d.seq
),
-- In the order of their seq, as every statement locks several. What waits for an earlier run of its schedule, until
-- model.schedule.NEVER, goes on waiting.
chosen AS MATERIALIZED (
    SELECT d.*
    FROM named
    CROSS JOIN LATERAL (
        SELECT seq, group_name
        FROM mainspring.delivery
        WHERE seq = named.seq
          AND num_nulls(held_by) = 1
          AND due_at > NOW($6)
          AND due_at < NEVER()
        FOR UPDATE
    ) AS d
),
due_now AS (
    UPDATE mainspring.delivery
    SET due_at = NOW($6)
    WHERE seq = ANY (ARRAY(SELECT chosen.seq FROM chosen))
),
noted AS (
    INSERT INTO mainspring.audit (at, by_whom, action, subject, detail)
    SELECT NOW($6), $3::text, 'run_now', $4, count(*) || ' due now'
    FROM chosen
    HAVING count(*) > 0 AND $3 IS NOT NULL
),
RUNG(chosen, $5, NOW($6))
SELECT (SELECT count(*) FROM chosen)
FROM rung

-- name: unbury
-- $1 message id, $2 group, $3 topic, $4 text of the error, $5 fingerprint, $6 messages and $7 groups that were picked: each
-- may be null; $8 limit, $9 by whom: null where a line of the audit is there already; $10 how the choice is spelled, $11 now,
-- $12 channel, $13 whether they live again, or are gone for good. One row: how many there were.
WITH named AS MATERIALIZED (
    SELECT DISTINCT d.seq
    FROM unnest($6::uuid[], $7::text[]) AS p (message_id, group_name)
    CROSS JOIN LATERAL (
        -- Not by an index that begins with the group: all of the group's would be read.
        SELECT seq FROM mainspring.dead WHERE message_id = p.message_id AND group_name || '' = p.group_name OFFSET 0
    ) AS d
    ORDER BY d.seq
),
-- In the order of their seq, as every statement locks several.
chosen AS MATERIALIZED (
    SELECT found.*
    FROM (
        SELECT d.*
        FROM mainspring.dead AS d
        WHERE $6::uuid[] IS NULL
          AND DEAD_CHOSEN()
        ORDER BY d.seq
        LIMIT $8
        FOR UPDATE
    ) AS found
    UNION ALL
    SELECT found.*
    FROM (
        SELECT d.*
        FROM named
        CROSS JOIN LATERAL (
            SELECT d.*
            FROM mainspring.dead AS d
            WHERE d.seq = named.seq
              AND DEAD_CHOSEN()
            FOR UPDATE
        ) AS d
        LIMIT $8
    ) AS found
),
unburied AS (
    DELETE FROM mainspring.dead WHERE seq = ANY (ARRAY(SELECT chosen.seq FROM chosen))
),
revived AS (
    INSERT INTO mainspring.delivery (
        seq, message_id, group_name, priority, due_at, scheduled_for, published_at, key, schedule, manual, epoch
    )
    SELECT
        seq, message_id, group_name, priority, NOW($11), scheduled_for,
        published_at, key, schedule, manual,
        -- epoch never goes back: it is the fence (invariant 2). A revival opens a new one, as a claim does, and the first one
        -- a range of its own, by which its runs are known: model.message.REPLAYED.
        greatest(epoch + 1, 1048576)
    FROM chosen
    WHERE $13::boolean
    ORDER BY seq
    RETURNING group_name
),
ended AS (
    INSERT INTO mainspring.ended (at, size, second, message_ids)
    SELECT
        NOW($11), count(DISTINCT chosen.message_id), false,
        array_agg(DISTINCT chosen.message_id)
    FROM chosen
    WHERE NOT $13
    HAVING count(*) > 0
),
noted AS (
    INSERT INTO mainspring.audit (at, by_whom, action, subject, detail)
    SELECT
        NOW($11), $9::text, CASE WHEN $13 THEN 'revive' ELSE 'discard' END, $10,
        count(*) || CASE WHEN $13 THEN ' revived' ELSE ' discarded' END
    FROM chosen
    HAVING count(*) > 0 AND $9 IS NOT NULL
),
RUNG(revived, $12, NOW($11))
SELECT (SELECT count(*) FROM chosen)
FROM rung

-- name: replayed
-- $1 message id, $2 model.message.REPLAYED. The copy that replaces a dead letter is a replay, as a revived one.
UPDATE mainspring.delivery SET epoch = $2 WHERE message_id = $1 AND epoch = 0
