-- Searching deliveries by index.

-- name: browse_dead
-- $1 seqs, $2 limit; $3 group, $4 topic, $5 key, $6 text of the error, $7 since, $8 until, $9 fingerprint, $10 text as
-- searchable() has it: each may be null. Columns in the order of model.views.DeliveryView, newest first.
SELECT
    d.seq, d.message_id, d.group_name, d.topic, d.key, 'dead', d.priority, d.attempt, d.deaths, d.scheduled_for,
    d.scheduled_for, d.published_at, NULL::text, false, d.buried_at, d.error
FROM (SELECT u.seq FROM unnest($1::bigint[]) AS u (seq) ORDER BY u.seq DESC OFFSET 0) AS s
CROSS JOIN LATERAL (SELECT * FROM mainspring.dead WHERE seq = s.seq OFFSET 0) AS d
WHERE ($3::text IS NULL OR d.group_name = $3)
  AND ($4::text IS NULL OR d.topic = $4)
  AND ($5::text IS NULL OR d.key = $5)
  AND ($6::text IS NULL OR position(lower($6) IN lower(d.error)) > 0)
  AND ($7::timestamptz IS NULL OR d.published_at >= $7)
  AND ($8::timestamptz IS NULL OR d.published_at < $8)
  AND ($9::text IS NULL OR d.fingerprint = $9)
  AND (
      $10::text IS NULL
      OR (SELECT position($10 IN mainspring.searchable(m.payload)) > 0 FROM mainspring.message AS m WHERE m.id = d.message_id)
  )
ORDER BY s.seq DESC
LIMIT $2

-- name: browse_ended
-- $1 ids, $2 limit; $3 status, $4 group, $5 topic, $6 text of the error, $7 key, $8 since, $9 until, $10 text as
-- searchable() has it: each but the status may be null. Columns in the order of model.views.DeliveryView, newest first.
-- A run does not remember its delivery's priority: normal.
SELECT
    r.id, r.message_id, r.group_name, r.topic, m.key, r.status, 2, r.attempt, 0, m.published_at, m.published_at,
    m.published_at, NULL::text, false, NULL::timestamptz, r.error
FROM (SELECT u.id FROM unnest($1::bigint[]) AS u (id) ORDER BY u.id DESC OFFSET 0) AS s
CROSS JOIN LATERAL (SELECT * FROM mainspring.run WHERE id = s.id OFFSET 0) AS r
CROSS JOIN LATERAL (
    SELECT key, published_at, $10::text IS NULL OR position($10 IN mainspring.searchable(payload)) > 0 AS hit
    FROM mainspring.message
    WHERE id = r.message_id
    OFFSET 0
) AS m
WHERE r.status = $3
  AND ($4::text IS NULL OR r.group_name = $4)
  AND ($5::text IS NULL OR r.topic = $5)
  AND ($6::text IS NULL OR position(lower($6) IN lower(r.error)) > 0)
  AND ($7::text IS NULL OR m.key = $7)
  AND ($8::timestamptz IS NULL OR m.published_at >= $8)
  AND ($9::timestamptz IS NULL OR m.published_at < $9)
  AND m.hit
ORDER BY s.id DESC
LIMIT $2

-- name: browse_live
-- $1 seqs, $2 limit; $3 state (live, scheduled, ready, running, lapsed, retrying), $4 group, $5 key, $6 held by, $7
-- since, $8 until, $9 topic, $10 text as searchable() has it: each but the state may be null; $11 now. Columns in the
-- order of model.views.DeliveryView, newest first.
SELECT
    d.seq, d.message_id, d.group_name, m.topic, d.key,
    CASE
        WHEN d.held_by IS NOT NULL AND d.due_at <= coalesce($11::timestamptz, statement_timestamp()) THEN 'lapsed'
        WHEN d.held_by IS NOT NULL THEN 'running'
        WHEN d.due_at <= coalesce($11::timestamptz, statement_timestamp()) THEN 'ready'
        ELSE 'scheduled'
    END,
    d.priority, d.attempt, d.deaths, d.due_at, d.scheduled_for, d.published_at, d.held_by,
    d.cancel_asked, NULL::timestamptz, NULL::text, p.said, p.at
FROM (SELECT u.seq FROM unnest($1::bigint[]) AS u (seq) ORDER BY u.seq DESC OFFSET 0) AS s
CROSS JOIN LATERAL (SELECT * FROM mainspring.delivery WHERE seq = s.seq OFFSET 0) AS d
CROSS JOIN LATERAL (
    SELECT topic, $10::text IS NULL OR position($10 IN mainspring.searchable(payload)) > 0 AS hit
    FROM mainspring.message
    WHERE id = d.message_id
    OFFSET 0
) AS m
LEFT JOIN LATERAL (
    SELECT said, at FROM mainspring.progress WHERE seq = d.seq AND epoch = d.epoch AND d.held_by IS NOT NULL OFFSET 0
) AS p ON true
WHERE CASE $3::text
        WHEN 'running' THEN d.held_by IS NOT NULL AND d.due_at > coalesce($11::timestamptz, statement_timestamp())
        WHEN 'lapsed' THEN d.held_by IS NOT NULL AND d.due_at <= coalesce($11::timestamptz, statement_timestamp())
        WHEN 'retrying' THEN d.held_by IS NULL AND d.attempt > 0
        WHEN 'ready' THEN d.held_by IS NULL AND d.due_at <= coalesce($11::timestamptz, statement_timestamp())
        WHEN 'scheduled' THEN d.held_by IS NULL AND d.due_at > coalesce($11::timestamptz, statement_timestamp())
        ELSE true
    END
  AND ($4::text IS NULL OR d.group_name = $4)
  AND ($5::text IS NULL OR d.key = $5)
  AND ($6::text IS NULL OR d.held_by = $6 OR left(d.held_by, -16) = $6 || '~')
  AND ($7::timestamptz IS NULL OR d.published_at >= $7)
  AND ($8::timestamptz IS NULL OR d.published_at < $8)
  AND ($9::text IS NULL OR m.topic = $9)
  AND m.hit
ORDER BY s.seq DESC
LIMIT $2

-- name: browse_parked
-- $1 seqs, $2 limit; $3 topic, $4 key, $5 since, $6 until, $7 text as searchable() has it: each may be null. Columns in
-- the order of model.views.DeliveryView, newest first.
SELECT
    p.seq, p.message_id, '', p.topic, p.key, 'parked', p.priority, 0, 0, p.due_at, p.scheduled_for, p.published_at,
    NULL::text, false, NULL::timestamptz, NULL::text
FROM (SELECT u.seq FROM unnest($1::bigint[]) AS u (seq) ORDER BY u.seq DESC OFFSET 0) AS s
CROSS JOIN LATERAL (SELECT * FROM mainspring.parked WHERE seq = s.seq OFFSET 0) AS p
WHERE ($3::text IS NULL OR p.topic = $3)
  AND ($4::text IS NULL OR p.key = $4)
  AND ($5::timestamptz IS NULL OR p.published_at >= $5)
  AND ($6::timestamptz IS NULL OR p.published_at < $6)
  AND (
      $7::text IS NULL
      OR (SELECT position($7 IN mainspring.searchable(m.payload)) > 0 FROM mainspring.message AS m WHERE m.id = p.message_id)
  )
ORDER BY s.seq DESC
LIMIT $2

-- name: few_dead
-- $1 at most, $2 before, $3 topic, or $4 fingerprint. One row: how many there are, counted to one more than that, and their
-- seqs. A fingerprint is looked for in each group, from one to the next by the index; more than a thousand groups are as
-- good as too many.
WITH RECURSIVE groups (name, step) AS (
    (SELECT d.group_name, 1 FROM mainspring.dead AS d WHERE $4::text IS NOT NULL ORDER BY d.group_name LIMIT 1)
    UNION ALL
    SELECT (SELECT d.group_name FROM mainspring.dead AS d WHERE d.group_name > groups.name ORDER BY d.group_name LIMIT 1),
        groups.step + 1
    FROM groups
    WHERE groups.name IS NOT NULL AND groups.step <= 1000
),
named (name) AS MATERIALIZED (SELECT groups.name FROM groups WHERE groups.name IS NOT NULL),
few AS MATERIALIZED (
    (
        SELECT d.seq
        FROM named
        CROSS JOIN LATERAL (
            SELECT seq FROM mainspring.dead WHERE group_name = named.name AND fingerprint = $4 LIMIT $1 + 1
        ) AS d
        WHERE (SELECT count(*) FROM named) <= 1000
        LIMIT $1 + 1
    )
    UNION ALL
    (SELECT d.seq FROM mainspring.dead AS d WHERE $4 IS NULL AND d.topic = $3 LIMIT $1 + 1)
)
SELECT
    CASE WHEN (SELECT count(*) FROM named) > 1000 THEN $1 + 1 ELSE (SELECT count(*) FROM few) END,
    ARRAY(SELECT few.seq FROM few WHERE few.seq < $2)

-- name: few_ended
-- $1 at most, $2 before, $3 status, $4 topic: may be null. One row: how many there are, counted to one more than that, and
-- their ids.
WITH few AS MATERIALIZED (
    (SELECT r.id FROM mainspring.run AS r WHERE $4::text IS NULL AND r.status = $3 LIMIT $1 + 1)
    UNION ALL
    (SELECT r.id FROM mainspring.run AS r WHERE r.topic = $4 AND r.status = $3 LIMIT $1 + 1)
)
SELECT (SELECT count(*) FROM few), ARRAY(SELECT few.id FROM few WHERE few.id < $2)

-- name: few_keyed
-- $1 at most, $2 before, $3 of what (live, dead, parked, run), $4 topic: may be null; $5 key. One row: how many there are,
-- counted to one more than that, and their seqs. Without a topic each is asked, from one to the next by the index.
WITH RECURSIVE topics (topic) AS (
    (
        SELECT m.topic FROM mainspring.message AS m
        WHERE $4::text IS NULL AND m.key IS NOT NULL ORDER BY m.topic LIMIT 1
    )
    UNION ALL
    SELECT (
        SELECT m.topic FROM mainspring.message AS m
        WHERE m.key IS NOT NULL AND m.topic > topics.topic ORDER BY m.topic LIMIT 1
    )
    FROM topics
    WHERE topics.topic IS NOT NULL
),
named (topic) AS MATERIALIZED (
    SELECT $4::text WHERE $4 IS NOT NULL
    UNION ALL
    -- More topics than that are not asked one by one.
    (SELECT topics.topic FROM topics WHERE topics.topic IS NOT NULL LIMIT 1001)
),
messages AS MATERIALIZED (
    SELECT m.id
    FROM named
    CROSS JOIN LATERAL (
        SELECT id FROM mainspring.message WHERE topic = named.topic AND key = $5 LIMIT $1 + 1
    ) AS m
    WHERE (SELECT count(*) FROM named) <= 1000
    LIMIT $1 + 1
),
few AS MATERIALIZED (
    SELECT c.seq
    FROM messages
    CROSS JOIN LATERAL (
        SELECT d.seq FROM mainspring.delivery AS d WHERE $3::text = 'live' AND d.message_id = messages.id
        UNION ALL
        SELECT d.seq FROM mainspring.dead AS d WHERE $3::text = 'dead' AND d.message_id = messages.id
        UNION ALL
        SELECT p.seq FROM mainspring.parked AS p WHERE $3::text = 'parked' AND p.message_id = messages.id
        UNION ALL
        SELECT r.id FROM mainspring.run AS r WHERE $3::text = 'run' AND r.message_id = messages.id
    ) AS c
    LIMIT $1 + 1
)
SELECT
    CASE
        WHEN (SELECT count(*) FROM named) > 1000 THEN $1 + 1
        ELSE greatest((SELECT count(*) FROM messages), (SELECT count(*) FROM few))
    END,
    ARRAY(SELECT few.seq FROM few WHERE few.seq < $2)

-- name: few_live
-- $1 at most, $2 before, $3 state (live, held, scheduled, ready, running, lapsed, retrying), $4 group: may be null; $5 now. One row: how
-- many there are, counted to one more than that, and their seqs: found by the indexes of what is to be had and of what is
-- held. More than a thousand groups are not asked one by one: as good as too many.
WITH RECURSIVE unheld (name, step) AS (
    (
        SELECT d.group_name, 1 FROM mainspring.delivery AS d
        WHERE $4::text IS NULL AND $3::text NOT IN ('held', 'running', 'lapsed') AND d.held_by IS NULL ORDER BY d.group_name LIMIT 1
    )
    UNION ALL
    SELECT (
        SELECT d.group_name FROM mainspring.delivery AS d
        WHERE d.held_by IS NULL AND d.group_name > unheld.name ORDER BY d.group_name LIMIT 1
    ), unheld.step + 1
    FROM unheld
    WHERE unheld.name IS NOT NULL AND unheld.step <= 1000
),
held (name, step) AS (
    (
        SELECT d.group_name, 1 FROM mainspring.delivery AS d
        WHERE $4::text IS NULL AND $3::text IN ('held', 'running', 'lapsed', 'live') AND d.held_by IS NOT NULL ORDER BY d.group_name LIMIT 1
    )
    UNION ALL
    SELECT (
        SELECT d.group_name FROM mainspring.delivery AS d
        WHERE d.held_by IS NOT NULL AND d.group_name > held.name ORDER BY d.group_name LIMIT 1
    ), held.step + 1
    FROM held
    WHERE held.name IS NOT NULL AND held.step <= 1000
),
named (name) AS MATERIALIZED (
    SELECT $4::text WHERE $4 IS NOT NULL
    UNION
    SELECT name FROM unheld WHERE name IS NOT NULL
    UNION
    SELECT name FROM held WHERE name IS NOT NULL
),
few AS MATERIALIZED (
    SELECT c.seq
    FROM named
    CROSS JOIN LATERAL (
        SELECT ready.seq
        FROM unnest('{0,1,2,3}'::smallint[]) AS level
        CROSS JOIN LATERAL (
            SELECT d.seq FROM mainspring.delivery AS d
            WHERE d.group_name = named.name AND d.priority = level AND d.held_by IS NULL
              AND d.due_at <= coalesce($5::timestamptz, statement_timestamp())
              AND $3 IN ('ready', 'retrying', 'live')
            LIMIT $1 + 1
        ) AS ready
        UNION ALL
        SELECT scheduled.seq
        FROM unnest('{0,1,2,3}'::smallint[]) AS level
        CROSS JOIN LATERAL (
            SELECT d.seq FROM mainspring.delivery AS d
            WHERE d.group_name = named.name AND d.priority = level AND d.held_by IS NULL
              AND d.due_at > coalesce($5::timestamptz, statement_timestamp())
              AND $3 IN ('scheduled', 'retrying', 'live')
            LIMIT $1 + 1
        ) AS scheduled
        UNION ALL
        (
            SELECT d.seq FROM mainspring.delivery AS d
            WHERE d.group_name = named.name AND d.held_by IS NOT NULL
              AND d.due_at > coalesce($5::timestamptz, statement_timestamp())
              AND $3 IN ('held', 'running', 'live')
            LIMIT $1 + 1
        )
        UNION ALL
        (
            SELECT d.seq FROM mainspring.delivery AS d
            WHERE d.group_name = named.name AND d.held_by IS NOT NULL
              AND d.due_at <= coalesce($5::timestamptz, statement_timestamp())
              AND $3 IN ('held', 'lapsed', 'live')
            LIMIT $1 + 1
        )
    ) AS c
    WHERE (SELECT count(*) FROM named) <= 1000
    LIMIT $1 + 1
)
SELECT
    CASE WHEN (SELECT count(*) FROM named) > 1000 THEN $1 + 1 ELSE (SELECT count(*) FROM few) END,
    ARRAY(SELECT few.seq FROM few WHERE few.seq < $2)
