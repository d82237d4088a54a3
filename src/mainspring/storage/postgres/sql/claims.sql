-- Claiming, extending, reaping and releasing.

-- name: claim
-- $1 groups, $2 limits; $3 places in $1, $4 levels, $5 sinces: the scans; $6 owner, $7 hold, $8 now.
-- Columns in the order of model.message.Delivery, rows in the order they were taken.
--
-- Every (group, level) is an index range scan of its own, so nothing due later, buried, or of another group or
-- level is ever looked at. Rows are locked one by one as the limits ask for them, never a row too many: without
-- MATERIALIZED a plan may run the scan again for every row it updates, and claim without limit.
--
-- Tables meet by LATERAL and by ANY (ARRAY (…)), never by a plain join: these are bounded index scans whatever the
-- planner believes about sizes, and they keep the order. A join planned while the tables were empty, and kept,
-- reads all of them for every row when they are not.
WITH want AS MATERIALIZED (
    SELECT w.group_name, w.quota, w.place
    FROM unnest($1::text[], $2::integer[]) WITH ORDINALITY AS w (group_name, quota, place)
    WHERE NOT EXISTS (
        SELECT FROM mainspring.groups AS g WHERE g.name = w.group_name AND g.paused_at IS NOT NULL
    )
    ORDER BY w.place
),
taken AS MATERIALIZED (
    SELECT found.*
    FROM want
    CROSS JOIN LATERAL (
        SELECT due.*
        FROM unnest($3::integer[], $4::smallint[], $5::timestamptz[]) AS scan (want, level, since)
        CROSS JOIN LATERAL (
            SELECT d.*
            FROM mainspring.delivery AS d
            WHERE d.group_name = want.group_name
              AND d.priority = scan.level
              AND d.held_by IS NULL
              AND d.due_at >= coalesce(scan.since, '-infinity')
              AND d.due_at <= NOW($8)
            ORDER BY d.due_at, d.seq
            LIMIT want.quota
            FOR UPDATE SKIP LOCKED
        ) AS due
        WHERE scan.want = want.place
        LIMIT want.quota
    ) AS found
),
held AS (
    UPDATE mainspring.delivery AS d
    SET held_by = $6,
        claimed_at = NOW($8),
        due_at = NOW($8) + $7::interval,
        -- epoch never goes back: it is the fence (invariant 2).
        epoch = d.epoch + 1,
        attempt = d.attempt + 1
    WHERE d.seq = ANY (ARRAY(SELECT taken.seq FROM taken))
)
-- The rows are ours from the lock on, so what was read under it needs only be told as it is being written.
SELECT
    taken.seq, taken.epoch + 1, taken.message_id, taken.group_name, m.topic, m.payload, m.content_type, m.headers,
    taken.key, m.correlation_id, m.causation_id, taken.priority, taken.attempt + 1, taken.deaths, taken.due_at,
    taken.scheduled_for, taken.published_at,
    coalesce(m.expires_at <= NOW($8), false),
    taken.cancel_asked, taken.suspect, NOW($8), taken.schedule
FROM taken
CROSS JOIN LATERAL (SELECT * FROM mainspring.message WHERE id = taken.message_id OFFSET 0) AS m

-- name: extend
-- $1 seqs in rising order, $2 epochs, $3 message ids, $4 owner, $5 hold, $6 now.
-- Returns (seq, epoch, message id, what) for every claim that was not simply extended: 'asked', 'busy' or 'lost'.
WITH claim AS MATERIALIZED (
    SELECT c.seq, c.epoch, c.message_id
    FROM unnest($1::bigint[], $2::integer[], $3::uuid[]) AS c (seq, epoch, message_id)
),
-- In the order of $1, as every statement locks several.
held AS MATERIALIZED (
    SELECT d.seq, d.epoch, d.message_id, d.cancel_asked
    FROM claim
    CROSS JOIN LATERAL (
        SELECT seq, epoch, message_id, cancel_asked
        FROM mainspring.delivery
        -- Not written held_by = $4: that would let the planner read all that is held instead of what is named.
        WHERE seq = claim.seq
          AND epoch = claim.epoch
          AND message_id = claim.message_id
          AND coalesce(held_by, '') = $4
        FOR UPDATE SKIP LOCKED
    ) AS d
),
extended AS (
    UPDATE mainspring.delivery
    SET due_at = NOW($6) + $5::interval
    WHERE seq = ANY (ARRAY(SELECT held.seq FROM held))
)
SELECT held.seq, held.epoch, held.message_id, 'asked'
FROM held
WHERE held.cancel_asked
UNION ALL
SELECT
    claim.seq,
    claim.epoch,
    claim.message_id,
    coalesce(
        (
            SELECT 'busy'
            FROM mainspring.delivery AS d
            WHERE d.seq = claim.seq
              AND d.epoch = claim.epoch
              AND d.message_id = claim.message_id
              AND coalesce(d.held_by, '') = $4
        ),
        'lost'
    )
FROM claim
WHERE (claim.seq, claim.epoch, claim.message_id) NOT IN (SELECT held.seq, held.epoch, held.message_id FROM held)

-- name: pin
-- $1 seq, $2 epoch, $3 message id, $4 owner, $5 for how many milliseconds it is waited at the most. Locks the delivery for as
-- long as a handler's transaction lasts, where that reads from a snapshot: a heartbeat that changed the row after the snapshot
-- would make every later settle a serialization failure. The heartbeat passes over what is locked, and so does a claim.
-- Under READ COMMITTED there is nothing to lock, and a process that froze is not waited for. As in settle_wait, a shorter
-- lock_timeout stays, and what it was is set again.
WITH before AS MATERIALIZED (
    SELECT current_setting('lock_timeout') AS was
    WHERE current_setting('transaction_isolation') <> 'read committed'
),
bounded AS MATERIALIZED (
    SELECT
        was,
        set_config(
            'lock_timeout',
            CASE
                WHEN was::interval > interval '0' AND was::interval <= interval '1 millisecond' * $5::text::integer THEN was
                ELSE $5::text
            END,
            true
        ) AS now
    FROM before
),
pinned AS MATERIALIZED (
    SELECT d.seq
    FROM bounded
    CROSS JOIN LATERAL (
        SELECT seq
        FROM mainspring.delivery
        WHERE seq = $1
          AND epoch = $2
          AND message_id = $3
          AND coalesce(held_by, '') = $4
          AND bounded.now IS NOT NULL
        FOR UPDATE
    ) AS d
)
SELECT set_config('lock_timeout', bounded.was, true)
FROM bounded
CROSS JOIN (SELECT count(*) FROM pinned) AS waited_for

-- part: LOST(rows, lapsed, hold, at, then)
-- A claim that has lapsed leaves a run, since its holder writes none. A release that does not store when it claimed has done so
-- before its last heartbeat. The holder is written as model.worker shows it.
lost AS (
    INSERT INTO mainspring.run (
        message_id, group_name, topic, attempt, status, started_at, finished_at, node, error, schedule, source, scheduled_for
    )
    SELECT
        {rows}.message_id, {rows}.group_name, m.topic, {rows}.attempt, 'lost',
        coalesce({rows}.claimed_at, {rows}.due_at - {hold}), {at}, regexp_replace({rows}.held_by, '~[0-9a-f]{16}$', ''),
        'its claim lapsed: the worker died, froze or lost the database, and ' || {then},
        {rows}.schedule,
        CLAIM_SOURCE({rows}),
        {rows}.scheduled_for
    FROM {rows}
    CROSS JOIN LATERAL (SELECT topic FROM mainspring.message WHERE id = {rows}.message_id OFFSET 0) AS m
    WHERE {lapsed}
)

-- name: reap
-- $1 groups, $2 owner, $3 hold, $4 now, $5 whether also what has deaths, or has one by this; $6 seqs
-- that the owner has put aside, and that are left alone while it holds them. Columns in the order of model.message.Delivery, one row at the most.
--
-- The oldest few of every group are read without a lock, and the first that no other session is taking is locked. Where all of these
-- are locked, and there may be more, each group is gone through for one that is not.
WITH lapsed AS MATERIALIZED (
    SELECT d.seq
    FROM unnest($1::text[]) AS w (group_name)
    CROSS JOIN LATERAL (
        SELECT seq, due_at
        FROM mainspring.delivery
        WHERE group_name = w.group_name
          AND held_by IS NOT NULL
          AND due_at <= NOW($4)
          AND ($5 OR (deaths = 0 AND NOT suspect))
          AND NOT (seq = ANY ($6::bigint[]) AND held_by = $2)
        ORDER BY due_at, seq
        LIMIT 32
    ) AS d
    WHERE NOT EXISTS (
        SELECT FROM mainspring.groups AS g WHERE g.name = w.group_name AND g.paused_at IS NOT NULL
    )
    ORDER BY d.due_at, d.seq
),
taken AS MATERIALIZED (
    (
        SELECT d.*
        FROM lapsed
        CROSS JOIN LATERAL (
            SELECT *
            FROM mainspring.delivery
            -- Not written IS NOT NULL: that would let the planner read all that is held instead of what is named.
            WHERE seq = lapsed.seq
              AND num_nulls(held_by) = 0
              AND due_at <= NOW($4)
              AND ($5 OR (deaths = 0 AND NOT suspect))
            FOR UPDATE SKIP LOCKED
        ) AS d
    )
    UNION ALL
    (
        SELECT d.*
        FROM unnest($1::text[]) AS w (group_name)
        CROSS JOIN LATERAL (
            SELECT *
            FROM mainspring.delivery
            WHERE group_name = w.group_name
              AND held_by IS NOT NULL
              AND due_at <= NOW($4)
              AND ($5 OR (deaths = 0 AND NOT suspect))
              AND NOT (seq = ANY ($6::bigint[]) AND held_by = $2)
            ORDER BY due_at, seq
            LIMIT 1
            FOR UPDATE SKIP LOCKED
        ) AS d
        WHERE (SELECT count(*) FROM lapsed) >= 32
          AND NOT EXISTS (
              SELECT FROM mainspring.groups AS g WHERE g.name = w.group_name AND g.paused_at IS NOT NULL
          )
    )
    LIMIT 1
),
held AS (
    UPDATE mainspring.delivery AS d
    SET held_by = $2,
        claimed_at = NOW($4),
        due_at = NOW($4) + $3::interval,
        -- epoch never goes back: it is the fence (invariant 2).
        epoch = d.epoch + 1,
        attempt = d.attempt + 1,
        -- Only a suspect dies. The first time it may be innocent.
        deaths = d.deaths + d.suspect::integer,
        suspect = true
    WHERE d.seq = ANY (ARRAY(SELECT taken.seq FROM taken))
),
LOST(taken, true, $3::interval, NOW($4), 'another has taken it over')
SELECT
    taken.seq, taken.epoch + 1, taken.message_id, taken.group_name, m.topic, m.payload, m.content_type, m.headers,
    taken.key, m.correlation_id, m.causation_id, taken.priority, taken.attempt + 1,
    taken.deaths + taken.suspect::integer, taken.due_at, taken.scheduled_for, taken.published_at,
    coalesce(m.expires_at <= NOW($4), false),
    taken.cancel_asked, true, NOW($4), taken.schedule
FROM taken
CROSS JOIN LATERAL (SELECT * FROM mainspring.message WHERE id = taken.message_id OFFSET 0) AS m

-- name: release
-- $1 group, $2 by whom, $3 how many to examine, $4 and $5 when the last one of the call before lapsed, and its seq: may be
-- null; $6 channel, $7 now. One row, if there is such a group: how many were released, left and busy, and when the last one
-- examined lapsed, and its seq.
WITH declared AS MATERIALIZED (
    SELECT g.name FROM mainspring.groups AS g WHERE g.name = $1
),
lapsed AS MATERIALIZED (
    SELECT d.seq, d.due_at, LEFT_TO_REAP() AS stays
    FROM mainspring.delivery AS d
    WHERE d.group_name = (SELECT declared.name FROM declared)
      AND d.held_by IS NOT NULL
      AND d.due_at <= NOW($7)
      AND (d.due_at, d.seq) > (coalesce($4::timestamptz, '-infinity'), coalesce($5::bigint, 0))
    ORDER BY d.due_at, d.seq
    LIMIT $3
),
taken AS MATERIALIZED (
    SELECT d.*
    FROM lapsed
    CROSS JOIN LATERAL (
        SELECT *
        FROM mainspring.delivery AS d
        -- Not written IS NOT NULL: that would let the planner read all that is held instead of what is named. What its holder
        -- has extended, or another has taken over since, is live.
        WHERE d.seq = lapsed.seq
          AND num_nulls(d.held_by) = 0
          AND d.due_at <= NOW($7)
          AND NOT d.suspect
          AND NOT d.cancel_asked
        FOR UPDATE SKIP LOCKED
    ) AS d
    WHERE NOT lapsed.stays
),
released AS (
    UPDATE mainspring.delivery AS d
    SET held_by = NULL,
        claimed_at = NULL,
        due_at = NOW($7),
        -- epoch never goes back: it is the fence (invariant 2). What its late holder settles is lost, not gone.
        epoch = d.epoch + 1
    WHERE d.seq = ANY (ARRAY(SELECT taken.seq FROM taken))
),
LOST(taken, true, interval '0', NOW($7), 'an operator has released it'),
noted AS (
    INSERT INTO mainspring.audit (at, by_whom, action, subject, detail)
    SELECT NOW($7), $2, 'release', $1, count(*) || ' released'
    FROM taken
    HAVING count(*) > 0
),
RUNG(taken, $6, NOW($7))
SELECT
    (SELECT count(*) FROM taken),
    (SELECT count(*) FROM lapsed WHERE lapsed.stays),
    (SELECT count(*) FROM lapsed WHERE NOT lapsed.stays AND lapsed.seq NOT IN (SELECT taken.seq FROM taken)),
    last.due_at,
    last.seq
FROM declared
CROSS JOIN rung
LEFT JOIN (SELECT due_at, seq FROM lapsed ORDER BY due_at DESC, seq DESC LIMIT 1) AS last ON true

-- name: take
-- $1 message id, $2 group, $3 owner, $4 hold, $5 now. Columns in the order of model.message.Delivery, one row at the most.
WITH taken AS MATERIALIZED (
    SELECT *
    FROM mainspring.delivery
    -- Not written IS NULL: that would let the planner read all that is ready instead of what is named.
    WHERE message_id = $1 AND group_name = $2 AND num_nulls(held_by) = 1
    FOR UPDATE SKIP LOCKED
),
held AS (
    UPDATE mainspring.delivery AS d
    SET held_by = $3,
        claimed_at = NOW($5),
        due_at = NOW($5) + $4::interval,
        -- epoch never goes back: it is the fence (invariant 2).
        epoch = d.epoch + 1,
        attempt = d.attempt + 1
    WHERE d.seq = ANY (ARRAY(SELECT taken.seq FROM taken))
)
SELECT
    taken.seq, taken.epoch + 1, taken.message_id, taken.group_name, m.topic, m.payload, m.content_type, m.headers,
    taken.key, m.correlation_id, m.causation_id, taken.priority, taken.attempt + 1, taken.deaths, taken.due_at,
    taken.scheduled_for, taken.published_at,
    coalesce(m.expires_at <= NOW($5), false),
    taken.cancel_asked, taken.suspect, NOW($5), taken.schedule
FROM taken
CROSS JOIN LATERAL (SELECT * FROM mainspring.message WHERE id = taken.message_id OFFSET 0) AS m

-- name: upcoming
-- $1 groups, $2 how far back, $3 now. One row: how long until the first of them that was not due so long ago, or null.
WITH want AS MATERIALIZED (
    SELECT w.group_name, level
    FROM unnest($1::text[]) AS w (group_name), unnest('{0,1,2,3}'::smallint[]) AS level
    WHERE NOT EXISTS (
        SELECT FROM mainspring.groups AS g WHERE g.name = w.group_name AND g.paused_at IS NOT NULL
    )
)
SELECT min(first.due_at) - NOW($3)
FROM want
CROSS JOIN LATERAL (
    SELECT d.due_at
    FROM mainspring.delivery AS d
    WHERE d.group_name = want.group_name
      AND d.priority = want.level
      AND d.held_by IS NULL
      AND d.due_at > NOW($3) - $2::interval
    ORDER BY d.due_at, d.seq
    LIMIT 1
) AS first
