-- Searching deliveries where no index helps, newest first.

-- name: walk_dead
-- $1 before, $2 how many; $3 group, $4 topic, $5 key, $6 text of the error, $7 since, $8 until, $9 fingerprint: each
-- may be null. One row: how many were looked at, the last of them, and which are worth another look.
SELECT count(*), min(w.seq), coalesce(array_agg(w.seq) FILTER (WHERE w.hit), '{}')
FROM (
    SELECT
        d.seq,
        ($3::text IS NULL OR d.group_name = $3)
        AND ($4::text IS NULL OR d.topic = $4)
        AND ($5::text IS NULL OR d.key = $5)
        AND ($6::text IS NULL OR position(lower($6) IN lower(d.error)) > 0)
        AND ($7::timestamptz IS NULL OR d.published_at >= $7)
        AND ($8::timestamptz IS NULL OR d.published_at < $8)
        AND ($9::text IS NULL OR d.fingerprint = $9) AS hit
    FROM mainspring.dead AS d
    WHERE d.seq < $1
    ORDER BY d.seq DESC
    LIMIT $2
) AS w

-- name: walk_dead_cause
-- $1 before, $2 how many; $3 group, $4 topic, $5 key, $6 text of the error, $7 since, $8 until, $9 fingerprint: each
-- may be null but the group and the fingerprint. One row: how many were looked at, the last of them, and which are
-- worth another look. Written so that only the index in this order will do, also for a plan that was made while the
-- table was small.
SELECT count(*), min(w.seq), coalesce(array_agg(w.seq) FILTER (WHERE w.hit), '{}')
FROM (
    SELECT
        d.seq,
        ($3::text IS NULL OR d.group_name = $3)
        AND ($4::text IS NULL OR d.topic = $4)
        AND ($5::text IS NULL OR d.key = $5)
        AND ($6::text IS NULL OR position(lower($6) IN lower(d.error)) > 0)
        AND ($7::timestamptz IS NULL OR d.published_at >= $7)
        AND ($8::timestamptz IS NULL OR d.published_at < $8)
        AND ($9::text IS NULL OR d.fingerprint = $9) AS hit
    FROM mainspring.dead AS d
    WHERE (d.group_name, d.fingerprint, d.seq) < ($3, $9, $1)
      AND (d.group_name, d.fingerprint) >= ($3, $9)
    ORDER BY d.group_name DESC, d.fingerprint DESC, d.seq DESC
    LIMIT $2
) AS w

-- name: walk_dead_group
-- $1 before, $2 how many; $3 group, $4 topic, $5 key, $6 text of the error, $7 since, $8 until, $9 fingerprint: each
-- may be null but the group. One row: how many were looked at, the last of them, and which are worth another look.
-- Written so that only the index in this order will do, also for a plan that was made while the table was small.
SELECT count(*), min(w.seq), coalesce(array_agg(w.seq) FILTER (WHERE w.hit), '{}')
FROM (
    SELECT
        d.seq,
        ($3::text IS NULL OR d.group_name = $3)
        AND ($4::text IS NULL OR d.topic = $4)
        AND ($5::text IS NULL OR d.key = $5)
        AND ($6::text IS NULL OR position(lower($6) IN lower(d.error)) > 0)
        AND ($7::timestamptz IS NULL OR d.published_at >= $7)
        AND ($8::timestamptz IS NULL OR d.published_at < $8)
        AND ($9::text IS NULL OR d.fingerprint = $9) AS hit
    FROM mainspring.dead AS d
    WHERE (d.group_name, d.seq) < ($3, $1) AND d.group_name >= $3
    ORDER BY d.group_name DESC, d.seq DESC
    LIMIT $2
) AS w

-- name: walk_ended
-- $1 before, $2 how many; $3 status, $4 group, $5 topic, $6 text of the error: each but the status may be null. One
-- row: how many were looked at, the last of them, and which are worth another look.
SELECT count(*), min(w.id), coalesce(array_agg(w.id) FILTER (WHERE w.hit), '{}')
FROM (
    SELECT
        r.id,
        r.status = $3
        AND ($4::text IS NULL OR r.group_name = $4)
        AND ($5::text IS NULL OR r.topic = $5)
        AND ($6::text IS NULL OR position(lower($6) IN lower(r.error)) > 0) AS hit
    FROM mainspring.run AS r
    WHERE r.id < $1
    ORDER BY r.id DESC
    LIMIT $2
) AS w

-- name: walk_ended_group
-- $1 before, $2 how many; $3 status, $4 group, $5 topic, $6 text of the error: each but the status and the group may be
-- null. One row: how many were looked at, the last of them, and which are worth another look. Written so that only the
-- index in this order will do, also for a plan that was made while the table was small.
SELECT count(*), min(w.id), coalesce(array_agg(w.id) FILTER (WHERE w.hit), '{}')
FROM (
    SELECT
        r.id,
        r.status = $3
        AND ($4::text IS NULL OR r.group_name = $4)
        AND ($5::text IS NULL OR r.topic = $5)
        AND ($6::text IS NULL OR position(lower($6) IN lower(r.error)) > 0) AS hit
    FROM mainspring.run AS r
    WHERE (r.group_name, r.id) < ($4, $1) AND r.group_name >= $4
    ORDER BY r.group_name DESC, r.id DESC
    LIMIT $2
) AS w

-- name: walk_live
-- $1 before, $2 how many; $3 state (live, scheduled, ready, running, lapsed, retrying), $4 group, $5 key, $6 held by, $7 since, $8 until:
-- each but the state may be null; $9 now. One row: how many were looked at, the last of them, and which are worth another
-- look.
SELECT count(*), min(w.seq), coalesce(array_agg(w.seq) FILTER (WHERE w.hit), '{}')
FROM (
    SELECT
        d.seq,
        CASE $3::text
            WHEN 'running' THEN d.held_by IS NOT NULL AND d.due_at > coalesce($9::timestamptz, statement_timestamp())
            WHEN 'lapsed' THEN d.held_by IS NOT NULL AND d.due_at <= coalesce($9::timestamptz, statement_timestamp())
            WHEN 'retrying' THEN d.held_by IS NULL AND d.attempt > 0
            WHEN 'ready' THEN d.held_by IS NULL AND d.due_at <= coalesce($9::timestamptz, statement_timestamp())
            WHEN 'scheduled' THEN d.held_by IS NULL AND d.due_at > coalesce($9::timestamptz, statement_timestamp())
            ELSE true
        END
        AND ($4::text IS NULL OR d.group_name = $4)
        AND ($5::text IS NULL OR d.key = $5)
        AND ($6::text IS NULL OR d.held_by = $6 OR left(d.held_by, -16) = $6 || '~')
        AND ($7::timestamptz IS NULL OR d.published_at >= $7)
        AND ($8::timestamptz IS NULL OR d.published_at < $8) AS hit
    FROM mainspring.delivery AS d
    WHERE d.seq < $1
    ORDER BY d.seq DESC
    LIMIT $2
) AS w

-- name: walk_parked
-- $1 before, $2 how many; $3 topic, $4 key, $5 since, $6 until: each may be null. One row: how many were looked at, the
-- last of them, and which are worth another look.
SELECT count(*), min(w.seq), coalesce(array_agg(w.seq) FILTER (WHERE w.hit), '{}')
FROM (
    SELECT
        p.seq,
        ($3::text IS NULL OR p.topic = $3)
        AND ($4::text IS NULL OR p.key = $4)
        AND ($5::timestamptz IS NULL OR p.published_at >= $5)
        AND ($6::timestamptz IS NULL OR p.published_at < $6) AS hit
    FROM mainspring.parked AS p
    WHERE p.seq < $1
    ORDER BY p.seq DESC
    LIMIT $2
) AS w

-- name: walk_parked_topic
-- $1 before, $2 how many; $3 topic, $4 key, $5 since, $6 until: each may be null but the topic. One row: how many were
-- looked at, the last of them, and which are worth another look. Written so that only the index in this order will do,
-- also for a plan that was made while the table was small.
SELECT count(*), min(w.seq), coalesce(array_agg(w.seq) FILTER (WHERE w.hit), '{}')
FROM (
    SELECT
        p.seq,
        ($3::text IS NULL OR p.topic = $3)
        AND ($4::text IS NULL OR p.key = $4)
        AND ($5::timestamptz IS NULL OR p.published_at >= $5)
        AND ($6::timestamptz IS NULL OR p.published_at < $6) AS hit
    FROM mainspring.parked AS p
    WHERE (p.topic, p.seq) < ($3, $1) AND p.topic >= $3
    ORDER BY p.topic DESC, p.seq DESC
    LIMIT $2
) AS w

-- name: weigh
-- $1 seqs, $2 of what (live, dead, parked, run). How many bytes the payload of each has, newest first: that is known without
-- reading it.
SELECT s.seq, octet_length(m.payload)
FROM (SELECT u.seq FROM unnest($1::bigint[]) AS u (seq) ORDER BY u.seq DESC OFFSET 0) AS s
CROSS JOIN LATERAL (
    SELECT d.message_id FROM mainspring.delivery AS d WHERE $2::text = 'live' AND d.seq = s.seq
    UNION ALL
    SELECT d.message_id FROM mainspring.dead AS d WHERE $2::text = 'dead' AND d.seq = s.seq
    UNION ALL
    SELECT p.message_id FROM mainspring.parked AS p WHERE $2::text = 'parked' AND p.seq = s.seq
    UNION ALL
    SELECT r.message_id FROM mainspring.run AS r WHERE $2::text = 'run' AND r.id = s.seq
) AS c
CROSS JOIN LATERAL (SELECT payload FROM mainspring.message WHERE id = c.message_id OFFSET 0) AS m
ORDER BY s.seq DESC
