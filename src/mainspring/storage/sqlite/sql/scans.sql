-- Searching deliveries where no index helps, newest first.

-- name: walk_dead
-- ?1 before, ?2 how many; ?3 group, ?4 topic, ?5 key, ?6 text of the error, ?7 since, ?8 until, ?9 fingerprint: each
-- may be null. One row: how many were looked at, the last of them, and which are worth another look.
SELECT count(*), min(seq), json_group_array(seq) FILTER (WHERE hit)
FROM (
    SELECT
        d.seq,
        (?3 IS NULL OR d.group_name = ?3)
        AND (?4 IS NULL OR d.topic = ?4)
        AND (?5 IS NULL OR d.key = ?5)
        AND (?6 IS NULL OR instr(lower(d.error), lower(?6)))
        AND (?7 IS NULL OR d.published_at >= ?7)
        AND (?8 IS NULL OR d.published_at < ?8)
        AND (?9 IS NULL OR d.fingerprint = ?9) AS hit
    FROM mainspring_dead AS d
    WHERE d.seq < ?1
    ORDER BY d.seq DESC
    LIMIT ?2
)

-- name: walk_dead_cause
-- ?1 before, ?2 how many; ?3 group, ?4 topic, ?5 key, ?6 text of the error, ?7 since, ?8 until, ?9 fingerprint: each
-- may be null but the first and the last. One row: how many were looked at, the last of them, and which are worth
-- another look.
SELECT count(*), min(seq), json_group_array(seq) FILTER (WHERE hit)
FROM (
    SELECT
        d.seq,
        (?3 IS NULL OR d.group_name = ?3)
        AND (?4 IS NULL OR d.topic = ?4)
        AND (?5 IS NULL OR d.key = ?5)
        AND (?6 IS NULL OR instr(lower(d.error), lower(?6)))
        AND (?7 IS NULL OR d.published_at >= ?7)
        AND (?8 IS NULL OR d.published_at < ?8)
        AND (?9 IS NULL OR d.fingerprint = ?9) AS hit
    FROM mainspring_dead AS d INDEXED BY mainspring_dead_cause
    WHERE d.group_name = ?3 AND d.fingerprint = ?9 AND d.seq < ?1
    ORDER BY d.seq DESC
    LIMIT ?2
)

-- name: walk_dead_group
-- ?1 before, ?2 how many; ?3 group, ?4 topic, ?5 key, ?6 text of the error, ?7 since, ?8 until, ?9 fingerprint: each
-- may be null but the group. One row: how many were looked at, the last of them, and which are worth another look.
SELECT count(*), min(seq), json_group_array(seq) FILTER (WHERE hit)
FROM (
    SELECT
        d.seq,
        (?3 IS NULL OR d.group_name = ?3)
        AND (?4 IS NULL OR d.topic = ?4)
        AND (?5 IS NULL OR d.key = ?5)
        AND (?6 IS NULL OR instr(lower(d.error), lower(?6)))
        AND (?7 IS NULL OR d.published_at >= ?7)
        AND (?8 IS NULL OR d.published_at < ?8)
        AND (?9 IS NULL OR d.fingerprint = ?9) AS hit
    FROM mainspring_dead AS d INDEXED BY mainspring_dead_group
    WHERE d.group_name = ?3 AND d.seq < ?1
    ORDER BY d.seq DESC
    LIMIT ?2
)

-- name: walk_ended
-- ?1 before, ?2 how many; ?3 status, ?4 group, ?5 topic, ?6 text of the error: each but the status may be null. One
-- row: how many were looked at, the last of them, and which are worth another look.
SELECT count(*), min(id), json_group_array(id) FILTER (WHERE hit)
FROM (
    SELECT
        r.id,
        r.status = ?3
        AND (?4 IS NULL OR r.group_name = ?4)
        AND (?5 IS NULL OR r.topic = ?5)
        AND (?6 IS NULL OR instr(lower(coalesce(r.error, '')), lower(?6))) AS hit
    FROM mainspring_run AS r
    WHERE r.id < ?1
    ORDER BY r.id DESC
    LIMIT ?2
)

-- name: walk_ended_group
-- ?1 before, ?2 how many; ?3 status, ?4 group, ?5 topic, ?6 text of the error: each but the status and the group may be
-- null. One row: how many were looked at, the last of them, and which are worth another look.
SELECT count(*), min(id), json_group_array(id) FILTER (WHERE hit)
FROM (
    SELECT
        r.id,
        r.status = ?3
        AND (?4 IS NULL OR r.group_name = ?4)
        AND (?5 IS NULL OR r.topic = ?5)
        AND (?6 IS NULL OR instr(lower(coalesce(r.error, '')), lower(?6))) AS hit
    FROM mainspring_run AS r INDEXED BY mainspring_run_group
    WHERE r.group_name = ?4 AND r.id < ?1
    ORDER BY r.id DESC
    LIMIT ?2
)

-- name: walk_live
-- ?1 before, ?2 how many; ?3 state, ?4 group, ?5 key, ?6 held by, ?7 since, ?8 until: each but the state may be null; ?9
-- now. One row: how many were looked at, the last of them, and which are worth another look.
SELECT count(*), min(seq), json_group_array(seq) FILTER (WHERE hit)
FROM (
    SELECT d.seq,
           CASE ?3
               WHEN 'live' THEN 1
               WHEN 'running' THEN d.held_by IS NOT NULL AND d.due_at > ?9
               WHEN 'lapsed' THEN d.held_by IS NOT NULL AND d.due_at <= ?9
               WHEN 'retrying' THEN d.held_by IS NULL AND d.attempt > 0
               WHEN 'ready' THEN d.held_by IS NULL AND d.due_at <= ?9
               ELSE d.held_by IS NULL AND d.due_at > ?9
           END
           AND (?4 IS NULL OR d.group_name = ?4)
           AND (?5 IS NULL OR d.key = ?5)
           AND (?6 IS NULL OR d.held_by = ?6 OR substr(d.held_by, 1, length(d.held_by) - 16) = ?6 || '~')
           AND (?7 IS NULL OR d.published_at >= ?7)
           AND (?8 IS NULL OR d.published_at < ?8) AS hit
    FROM mainspring_delivery AS d
    WHERE d.seq < ?1
    ORDER BY d.seq DESC
    LIMIT ?2
)

-- name: walk_parked
-- ?1 before, ?2 how many; ?3 topic, ?4 key, ?5 since, ?6 until: each may be null. One row: how many were looked at, the
-- last of them, and which are worth another look.
SELECT count(*), min(seq), json_group_array(seq) FILTER (WHERE hit)
FROM (
    SELECT
        p.seq,
        (?3 IS NULL OR p.topic = ?3)
        AND (?4 IS NULL OR p.key = ?4)
        AND (?5 IS NULL OR p.published_at >= ?5)
        AND (?6 IS NULL OR p.published_at < ?6) AS hit
    FROM mainspring_parked AS p
    WHERE p.seq < ?1
    ORDER BY p.seq DESC
    LIMIT ?2
)

-- name: walk_parked_topic
-- ?1 before, ?2 how many; ?3 topic, ?4 key, ?5 since, ?6 until: each may be null but the first. One row: how many were
-- looked at, the last of them, and which are worth another look.
SELECT count(*), min(seq), json_group_array(seq) FILTER (WHERE hit)
FROM (
    SELECT
        p.seq,
        (?3 IS NULL OR p.topic = ?3)
        AND (?4 IS NULL OR p.key = ?4)
        AND (?5 IS NULL OR p.published_at >= ?5)
        AND (?6 IS NULL OR p.published_at < ?6) AS hit
    FROM mainspring_parked AS p INDEXED BY mainspring_parked_topic
    WHERE p.topic = ?3 AND p.seq < ?1
    ORDER BY p.seq DESC
    LIMIT ?2
)

-- name: weigh
-- ?1 seqs, ?2 of what (live, dead, parked, run). How many bytes the payload of each has, newest first: that is known without
-- reading it.
WITH s(seq) AS MATERIALIZED (SELECT value FROM json_each(?1)),
c(seq, message_id) AS (
    SELECT s.seq, d.message_id FROM s CROSS JOIN mainspring_delivery AS d ON d.seq = s.seq WHERE ?2 = 'live'
    UNION ALL
    SELECT s.seq, d.message_id FROM s CROSS JOIN mainspring_dead AS d ON d.seq = s.seq WHERE ?2 = 'dead'
    UNION ALL
    SELECT s.seq, p.message_id FROM s CROSS JOIN mainspring_parked AS p ON p.seq = s.seq WHERE ?2 = 'parked'
    UNION ALL
    SELECT s.seq, r.message_id FROM s CROSS JOIN mainspring_run AS r ON r.id = s.seq WHERE ?2 = 'run'
)
SELECT c.seq, length(m.payload) FROM c CROSS JOIN mainspring_message AS m ON m.id = c.message_id ORDER BY c.seq DESC
