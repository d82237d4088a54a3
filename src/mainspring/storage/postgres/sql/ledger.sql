-- Reading one message, its runs, the roster and the audit.

-- name: chain
-- $1 message id, $2 limit, $3 now. Rows of (whether it is a cause, how far away, and the columns of model.browsing.Link), on
-- either side up to one more than the limit. A message that is its own cause, directly or not, is listed once.
WITH RECURSIVE cause (id, causation_id, distance, path) AS (
    SELECT m.id, m.causation_id, 0, ARRAY[m.id] FROM mainspring.message AS m WHERE m.id = $1
    UNION ALL
    SELECT m.id, m.causation_id, cause.distance + 1, cause.path || m.id
    FROM cause
    CROSS JOIN LATERAL (
        SELECT id, causation_id FROM mainspring.message WHERE id = cause.causation_id OFFSET 0
    ) AS m
    WHERE m.id <> ALL (cause.path)
),
caused (id, distance, path) AS (
    SELECT m.id, 0, ARRAY[m.id] FROM mainspring.message AS m WHERE m.id = $1
    UNION ALL
    SELECT m.id, caused.distance + 1, caused.path || m.id
    FROM caused
    CROSS JOIN LATERAL (SELECT id FROM mainspring.message WHERE causation_id = caused.id OFFSET 0) AS m
    WHERE m.id <> ALL (caused.path)
),
-- The message itself comes first on both sides.
linked AS MATERIALIZED (
    (SELECT true AS is_cause, cause.id, cause.distance FROM cause LIMIT $2 + 2)
    UNION ALL
    (SELECT false, caused.id, caused.distance FROM caused LIMIT $2 + 2)
)
SELECT
    linked.is_cause, linked.distance, m.id, m.topic, m.key, m.causation_id, m.published_at,
    MESSAGE_STATE(NOW($3))
FROM linked
CROSS JOIN LATERAL (SELECT * FROM mainspring.message WHERE id = linked.id OFFSET 0) AS m
WHERE linked.distance > 0
ORDER BY linked.is_cause, linked.distance, m.published_at, m.id

-- name: own
-- $1 message ids. Those that this transaction has inserted, in one of its savepoints or in none: what can be seen of a
-- transaction that goes on is one's own. Rows know the lower half of a number; a savepoint's is above its transaction's.
SELECT m.id
FROM unnest($1::uuid[]) AS u (id)
CROSS JOIN LATERAL (
    SELECT id, xmin::text::bigint - (txid_current() & 4294967295) AS later
    FROM mainspring.message
    WHERE id = u.id
    OFFSET 0
) AS m
CROSS JOIN LATERAL (SELECT CASE WHEN m.later < -2147483648 THEN m.later + 4294967296 ELSE m.later END) AS s (later)
WHERE CASE WHEN s.later BETWEEN 0 AND 2147483647 THEN txid_status(txid_current() + s.later) = 'in progress' ELSE false END

-- name: roster_groups
-- $1 now. A row per group (name null when there is none): now, then columns in the order of model.views.GroupView.
SELECT
    clock.now, g.name, g.app,
    ARRAY(SELECT s.pattern FROM mainspring.subscription AS s WHERE s.group_name = g.name ORDER BY s.pattern),
    g.handler, g.options, g.declared_at, g.served_at, g.paused_at, g.paused_by, g.pause_reason
FROM (SELECT NOW($1) AS now) AS clock
LEFT JOIN mainspring.groups AS g ON true
ORDER BY g.name

-- name: runs_recent
-- $1 schedules, $2 limit. Columns in the order of model.views.RunView: the latest runs of each, newest first.
SELECT r.*
FROM unnest($1::text[]) AS s (name)
CROSS JOIN LATERAL (
    SELECT RUN_COLUMNS()
    FROM mainspring.run
    WHERE schedule = s.name
    ORDER BY id DESC
    LIMIT $2
) AS r
ORDER BY r.id DESC

-- name: tally
-- $1 cap, $2 now. A row per group (name null when there is none): (now, parked, expired parked, name, scheduled, ready,
-- running, lapsed, dead, oldest ready, handled, failed).
--
-- Names are found by hopping from one to the next in an index; every count stops at the cap. So the price is that of
-- groups times cap, however many rows there are.
WITH RECURSIVE clock AS MATERIALIZED (
    SELECT NOW($2) AS now
),
unheld (name) AS (
    (SELECT d.group_name FROM mainspring.delivery AS d WHERE d.held_by IS NULL ORDER BY d.group_name LIMIT 1)
    UNION ALL
    SELECT (
        SELECT d.group_name FROM mainspring.delivery AS d
        WHERE d.held_by IS NULL AND d.group_name > unheld.name ORDER BY d.group_name LIMIT 1
    )
    FROM unheld
    WHERE unheld.name IS NOT NULL
),
held (name) AS (
    (SELECT d.group_name FROM mainspring.delivery AS d WHERE d.held_by IS NOT NULL ORDER BY d.group_name LIMIT 1)
    UNION ALL
    SELECT (
        SELECT d.group_name FROM mainspring.delivery AS d
        WHERE d.held_by IS NOT NULL AND d.group_name > held.name ORDER BY d.group_name LIMIT 1
    )
    FROM held
    WHERE held.name IS NOT NULL
),
buried (name) AS (
    (SELECT d.group_name FROM mainspring.dead AS d ORDER BY d.group_name LIMIT 1)
    UNION ALL
    SELECT (SELECT d.group_name FROM mainspring.dead AS d WHERE d.group_name > buried.name ORDER BY d.group_name LIMIT 1)
    FROM buried
    WHERE buried.name IS NOT NULL
),
named AS MATERIALIZED (
    SELECT name FROM mainspring.groups
    UNION
    SELECT name FROM unheld WHERE name IS NOT NULL
    UNION
    SELECT name FROM held WHERE name IS NOT NULL
    UNION
    SELECT name FROM buried WHERE name IS NOT NULL
),
worked AS MATERIALIZED (
    SELECT group_name AS name, sum(handled)::bigint AS handled, sum(failed)::bigint AS failed
    FROM mainspring.tally
    GROUP BY group_name
)
SELECT
    clock.now,
    (SELECT count(*) FROM (SELECT FROM mainspring.parked LIMIT $1) AS capped),
    coalesce((SELECT c.value FROM mainspring.counter AS c WHERE c.name = 'expired_parked'), 0),
    named.name,
    (
        SELECT count(*) FROM (
            SELECT
            FROM unnest('{0,1,2,3}'::smallint[]) AS level
            CROSS JOIN LATERAL (
                SELECT FROM mainspring.delivery AS d
                WHERE d.group_name = named.name AND d.priority = level AND d.held_by IS NULL AND d.due_at > clock.now
                LIMIT $1
            ) AS scheduled
            LIMIT $1
        ) AS capped
    ),
    (
        SELECT count(*) FROM (
            SELECT
            FROM unnest('{0,1,2,3}'::smallint[]) AS level
            CROSS JOIN LATERAL (
                SELECT FROM mainspring.delivery AS d
                WHERE d.group_name = named.name AND d.priority = level AND d.held_by IS NULL AND d.due_at <= clock.now
                LIMIT $1
            ) AS ready
            LIMIT $1
        ) AS capped
    ),
    (
        SELECT count(*) FROM (
            SELECT FROM mainspring.delivery AS d
            WHERE d.group_name = named.name AND d.held_by IS NOT NULL AND d.due_at > clock.now
            LIMIT $1
        ) AS capped
    ),
    (
        SELECT count(*) FROM (
            SELECT FROM mainspring.delivery AS d
            WHERE d.group_name = named.name AND d.held_by IS NOT NULL AND d.due_at <= clock.now
            LIMIT $1
        ) AS capped
    ),
    (SELECT count(*) FROM (SELECT FROM mainspring.dead AS d WHERE d.group_name = named.name LIMIT $1) AS capped),
    (
        SELECT min(oldest.due_at)
        FROM unnest('{0,1,2,3}'::smallint[]) AS level
        CROSS JOIN LATERAL (
            SELECT d.due_at FROM mainspring.delivery AS d
            WHERE d.group_name = named.name AND d.priority = level AND d.held_by IS NULL AND d.due_at <= clock.now
            ORDER BY d.due_at, d.seq
            LIMIT 1
        ) AS oldest
    ),
    coalesce(worked.handled, 0),
    coalesce(worked.failed, 0)
FROM clock
LEFT JOIN named ON true
LEFT JOIN worked ON worked.name = named.name
ORDER BY named.name
