-- Claiming under limits: order by key, concurrency, rates.

-- name: limited_due
-- $1 group; $2 levels, $3 sinces: the scans; $4 how many to look at, $5 now. Rows of (what, place, seq, key, at):
-- 'due' the first that are due; 'held' in place how many are held under the key; 'next' when the first comes due of
-- those that are not; 'paused' if the group is; 'now' what time it is.
WITH due AS MATERIALIZED (
    SELECT row_number() OVER (ORDER BY scan.turn, d.due_at, d.seq) AS place, d.seq, d.key
    FROM unnest($2::smallint[], $3::timestamptz[]) WITH ORDINALITY AS scan (level, since, turn)
    CROSS JOIN LATERAL (
        SELECT seq, key, due_at
        FROM mainspring.delivery
        WHERE group_name = $1
          AND priority = scan.level
          AND held_by IS NULL
          AND due_at >= coalesce(scan.since, '-infinity')
          AND due_at <= NOW($5)
        ORDER BY due_at, seq
        LIMIT $4
    ) AS d
    ORDER BY place
    LIMIT $4
),
later AS MATERIALIZED (
    SELECT d.due_at
    FROM unnest('{0,1,2,3}'::smallint[]) AS level
    CROSS JOIN LATERAL (
        SELECT due_at
        FROM mainspring.delivery
        WHERE group_name = $1
          AND priority = level
          AND held_by IS NULL
          AND due_at > NOW($5)
        ORDER BY due_at, seq
        LIMIT 1
    ) AS d
)
SELECT 'now', 0, NULL::bigint, NULL::text, NOW($5)
UNION ALL
SELECT 'paused', 0, NULL, NULL, paused_at FROM mainspring.groups WHERE name = $1 AND paused_at IS NOT NULL
UNION ALL
SELECT 'next', 0, NULL, NULL, min(due_at) FROM later HAVING count(*) > 0
UNION ALL
SELECT 'held', count(*), NULL, key, NULL FROM mainspring.delivery WHERE group_name = $1 AND held_by IS NOT NULL GROUP BY key
UNION ALL
SELECT 'due', place, seq, key, NULL FROM due

-- name: limited_heads
-- $1 group, $2 keys, $3 ordered, $4 whether those that wait for another attempt are skipped, $5 how deep to look, $6 how
-- many of a key, $7 now. Of the unheld, the first of each key that are due; under an order the very first, if it
-- is due. Compared as rows: nothing but the index by key has this order, whatever the planner believes.
SELECT head.seq, asked.key
FROM unnest($2::text[]) WITH ORDINALITY AS asked (key, place)
CROSS JOIN LATERAL (
    SELECT d.seq, d.due_at
    FROM (
        SELECT *
        FROM mainspring.delivery
        WHERE (group_name, key, seq) > ($1, asked.key, 0)
          AND (group_name, key) <= ($1, asked.key)
          AND num_nulls(held_by) = 1 AND key IS NOT NULL
        ORDER BY group_name, key, seq
        LIMIT $5
    ) AS d
    WHERE d.due_at <= NOW($7) OR ($3 AND NOT ($4 AND d.attempt > 0))
    ORDER BY d.seq
    LIMIT $6
) AS head
WHERE head.due_at <= NOW($7)
ORDER BY asked.place, head.seq

-- name: limited_hold
-- $1 group, $2 seqs, $3 whether their claims have lapsed, $4 owner, $5 hold; the window and the slot of the group's rate, $6
-- and $7, and of a key's, $8 and $9, in microseconds or null; $10 now. Columns in the order of model.message.Delivery, rows in
-- the order of $2. What another session has taken or removed is skipped.
WITH taken AS MATERIALIZED (
    SELECT d.*
    FROM unnest($2::bigint[]) AS chosen (seq)
    CROSS JOIN LATERAL (
        SELECT *
        FROM mainspring.delivery
        -- Not written IS NULL: that would let the planner read all that is held, or all that is not.
        WHERE seq = chosen.seq
          AND num_nulls(held_by) = CASE WHEN $3 THEN 0 ELSE 1 END
          AND due_at <= NOW($10)
        FOR UPDATE SKIP LOCKED
    ) AS d
),
held AS (
    UPDATE mainspring.delivery AS d
    SET held_by = $4,
        claimed_at = NOW($10),
        due_at = NOW($10) + $5::interval,
        -- epoch never goes back: it is the fence (invariant 2).
        epoch = d.epoch + 1,
        attempt = d.attempt + 1,
        -- Only a suspect dies. The first time it may be innocent.
        deaths = d.deaths + ($3 AND d.suspect)::integer,
        suspect = d.suspect OR $3
    WHERE d.seq = ANY (ARRAY(SELECT taken.seq FROM taken))
),
LOST(taken, $3, $5::interval, NOW($10), 'another has taken it over'),
counted AS (
    SELECT '' AS key, $6::bigint AS per, $7::bigint AS slot, count(*) AS claims
    FROM taken
    WHERE $6::bigint IS NOT NULL
    HAVING count(*) > 0
    UNION ALL
    SELECT taken.key, $8::bigint, $9::bigint, count(*)
    FROM taken
    WHERE $8::bigint IS NOT NULL AND taken.key IS NOT NULL
    GROUP BY taken.key
),
-- They count from the beginning of their slot for a window and a slot: whatever stretch as long as the window is looked at,
-- all that was claimed within it has counted.
spending AS (
    INSERT INTO mainspring.spent AS s (group_name, key, until, claims)
    SELECT
        $1, counted.key,
        timestamptz 'epoch' + interval '1 microsecond' * (
            (extract(epoch FROM NOW($10)) * 1000000)::bigint
            / counted.slot * counted.slot + counted.slot + counted.per
        ),
        counted.claims
    FROM counted
    ON CONFLICT (group_name, key, until) DO UPDATE SET claims = s.claims + excluded.claims
),
over AS MATERIALIZED (
    SELECT key, until
    FROM mainspring.spent
    WHERE group_name = $1
      AND until <= NOW($10)
      AND num_nulls($6::bigint, $8::bigint) < 2
    ORDER BY until
    LIMIT 500
    FOR UPDATE SKIP LOCKED
),
forgotten AS (
    DELETE FROM mainspring.spent
    WHERE group_name = $1 AND (key, until) IN (SELECT over.key, over.until FROM over)
)
SELECT
    taken.seq, taken.epoch + 1, taken.message_id, taken.group_name, m.topic, m.payload, m.content_type, m.headers,
    taken.key, m.correlation_id, m.causation_id, taken.priority, taken.attempt + 1,
    taken.deaths + ($3 AND taken.suspect)::integer, taken.due_at, taken.scheduled_for, taken.published_at,
    coalesce(m.expires_at <= NOW($10), false),
    taken.cancel_asked, taken.suspect OR $3, NOW($10), taken.schedule
FROM taken
CROSS JOIN LATERAL (SELECT * FROM mainspring.message WHERE id = taken.message_id OFFSET 0) AS m

-- name: limited_keyless
-- $1 group, $2 levels, $3 how many, $4 now. The first that are due, unheld and without a key.
SELECT d.seq
FROM unnest($2::smallint[]) WITH ORDINALITY AS scan (level, turn)
CROSS JOIN LATERAL (
    SELECT seq, due_at
    FROM mainspring.delivery
    WHERE group_name = $1
      AND priority = scan.level
      AND num_nulls(held_by) = 1 AND key IS NULL
      AND due_at <= NOW($4)
    ORDER BY due_at, seq
    LIMIT $3
) AS d
ORDER BY scan.turn, d.due_at, d.seq
LIMIT $3

-- name: limited_lapsed
-- $1 group, $2 how many, $3 now, $4 whether also what has deaths, or has one by being taken; $5 owner, $6 seqs that it
-- has put aside, and that are left alone while it holds them. What time it is, and the oldest claims that have lapsed, by (now, seq, key).
SELECT NOW($3), d.seq, d.key
FROM (SELECT 1) AS one
LEFT JOIN LATERAL (
    SELECT seq, key, due_at
    FROM mainspring.delivery
    WHERE group_name = $1
      AND held_by IS NOT NULL
      AND due_at <= NOW($3)
      AND ($4 OR (deaths = 0 AND NOT suspect))
      AND NOT (seq = ANY ($6::bigint[]) AND held_by = $5)
      AND NOT EXISTS (SELECT FROM mainspring.groups AS g WHERE g.name = $1 AND g.paused_at IS NOT NULL)
    ORDER BY due_at, seq
    LIMIT $2
) AS d ON true
ORDER BY d.due_at, d.seq

-- name: limited_next_keys
-- $1 group, $2 the key after which to begin, $3 how many. The next keys that have deliveries, each found by one look into
-- the index. Compared as rows: nothing but the index by key has this order, whatever the planner believes.
WITH RECURSIVE walk (key, place) AS (
    SELECT first.key, 1
    FROM (
        SELECT group_name, key
        FROM mainspring.delivery
        WHERE (group_name, key) > ($1, $2) AND num_nulls(held_by) = 1 AND key IS NOT NULL
        ORDER BY group_name, key, seq
        LIMIT 1
    ) AS first
    WHERE first.group_name = $1
    UNION ALL
    SELECT next.key, walk.place + 1
    FROM walk
    CROSS JOIN LATERAL (
        SELECT group_name, key
        FROM mainspring.delivery
        WHERE (group_name, key) > ($1, walk.key) AND num_nulls(held_by) = 1 AND key IS NOT NULL
        ORDER BY group_name, key, seq
        LIMIT 1
    ) AS next
    WHERE walk.place < $3 AND next.group_name = $1
)
SELECT walk.key FROM walk ORDER BY walk.place

-- name: limited_spent
-- $1 group, $2 keys (the empty one is the whole group), $3 now. What still counts of what was claimed.
-- Compared as rows: nothing but the index by key has this order, whatever the planner believes.
SELECT s.key, s.until, s.claims
FROM unnest($2::text[]) AS asked (key)
CROSS JOIN LATERAL (
    SELECT *
    FROM mainspring.spent
    WHERE (group_name, key, until) > ($1, asked.key, NOW($3))
      AND (group_name, key) <= ($1, asked.key)
    ORDER BY group_name, key, until
    OFFSET 0
) AS s

-- name: limited_turn
-- $1 group. No other session claims under its limits from here until our transaction ends: what is counted next stays true
-- (invariant 6). A process that is stopped in between must not stop the others: the server ends its session for it. Nor must
-- a session that has locked the row: a turn lasts milliseconds, and other groups come after it on this connection.
INSERT INTO mainspring.limits AS l (group_name, turn)
SELECT $1, 1
WHERE set_config('lock_timeout', '1000', true) IS NOT NULL
ON CONFLICT (group_name) DO UPDATE SET turn = l.turn + 1
RETURNING set_config('idle_in_transaction_session_timeout', '5000', true)

-- name: prune_spent
-- $1 limit, $2 now. Claims that count no more, of groups that have no rate any longer: the others see to their own.
WITH over AS MATERIALIZED (
    SELECT s.group_name, s.key, s.until
    FROM mainspring.groups AS known
    CROSS JOIN LATERAL (
        SELECT *
        FROM mainspring.spent
        WHERE group_name = known.name AND until <= NOW($2)
        ORDER BY until
        LIMIT $1
        FOR UPDATE SKIP LOCKED
    ) AS s
    LIMIT $1
)
DELETE FROM mainspring.spent
WHERE (group_name, key, until) IN (SELECT over.group_name, over.key, over.until FROM over)
