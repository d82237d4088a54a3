-- Retention.

-- part: OLDEST(table, column, at)
SELECT known.topic, {at} - oldest.{column}
FROM known
LEFT JOIN LATERAL (
    SELECT r.{column} FROM mainspring.{table} AS r WHERE r.topic = known.topic ORDER BY r.{column} LIMIT 1
) AS oldest ON true
WHERE known.topic IS NOT NULL
ORDER BY known.topic

-- part: OLDER(table, column)
-- The oldest of $4, a topic, or of all topics where that is null; $1 how long they are kept, $2 limit, $3 now.
of_every_topic AS MATERIALIZED (
    SELECT r.seq
    FROM mainspring.{table} AS r
    WHERE $4::text IS NULL AND r.{column} < NOW($3) - $1::interval
    ORDER BY r.{column}
    LIMIT $2
    FOR UPDATE SKIP LOCKED
),
-- Written twice, since one condition for both would be answered by one index for both.
of_one AS MATERIALIZED (
    SELECT r.seq
    FROM mainspring.{table} AS r
    WHERE r.topic = $4 AND r.{column} < NOW($3) - $1::interval
    ORDER BY r.{column}
    LIMIT $2
    FOR UPDATE SKIP LOCKED
)

-- part: TOPICS(table, after, many)
known (topic, place) AS (
    (SELECT r.topic, 1 FROM mainspring.{table} AS r WHERE r.topic > {after} ORDER BY r.topic LIMIT 1)
    UNION ALL
    SELECT (SELECT r.topic FROM mainspring.{table} AS r WHERE r.topic > known.topic ORDER BY r.topic LIMIT 1), known.place + 1
    FROM known
    WHERE known.topic IS NOT NULL AND known.place < {many}
)

-- name: prune_audit
-- $1 how long they are kept, $2 limit, $3 now. One row: how many entries were removed.
WITH over AS MATERIALIZED (
    SELECT a.id
    FROM mainspring.audit AS a
    WHERE a.at < NOW($3) - $1::interval
    ORDER BY a.at
    LIMIT $2
    FOR UPDATE SKIP LOCKED
),
removed AS (
    DELETE FROM mainspring.audit WHERE id = ANY (ARRAY(SELECT over.id FROM over)) RETURNING id
)
SELECT count(*) FROM removed

-- name: prune_bells
-- $1 now: ears that have not been pricked for an hour belong to workers that are gone.
DELETE FROM mainspring.bell
WHERE (group_name, ear) IN (
    SELECT b.group_name, b.ear
    FROM mainspring.bell AS b
    WHERE b.armed_until < NOW($1) - interval '1 hour'
    ORDER BY b.group_name, b.ear
    FOR UPDATE SKIP LOCKED
)

-- name: prune_cursors
-- $1 how long they are kept, $2 limit, $3 now. One row: how many cursors were removed whose shard was not named for so
-- long.
WITH over AS MATERIALIZED (
    SELECT c.topic, c.work, c.shard
    FROM mainspring.fanout_cursor AS c
    WHERE c.seen_at < NOW($3) - $1::interval
    ORDER BY c.seen_at
    LIMIT $2
    FOR UPDATE SKIP LOCKED
),
removed AS (
    DELETE FROM mainspring.fanout_cursor AS c
    USING over
    WHERE c.topic = over.topic AND c.work = over.work AND c.shard = over.shard
    RETURNING 1
)
SELECT count(*) FROM removed

-- name: prune_dead
-- $1 how long they are kept, $2 limit, $3 now, $4 topic or null. One row: how many dead letters were removed.
WITH OLDER(dead, buried_at),
removed AS (
    DELETE FROM mainspring.dead WHERE seq = ANY (ARRAY(TABLE of_every_topic UNION ALL TABLE of_one)) RETURNING message_id
),
ENDED(removed, NOW($3))
SELECT count(*) FROM removed

-- name: prune_inbox
-- $1 how long they are kept, $2 limit, $3 now. One row: how many messages were removed. What is processing stays.
WITH over AS MATERIALIZED (
    SELECT i.message_id, i.source, i.group_name
    FROM mainspring.inbox AS i
    WHERE i.status <> 'processing'
      AND i.changed_at < NOW($3) - $1::interval
    ORDER BY i.changed_at
    LIMIT $2
    FOR UPDATE SKIP LOCKED
),
removed AS (
    DELETE FROM mainspring.inbox AS i
    USING over
    WHERE i.message_id = over.message_id AND i.source = over.source AND i.group_name = over.group_name
    RETURNING 1
)
SELECT count(*) FROM removed

-- name: prune_leases
-- $1 how long they are kept, $2 limit, $3 now. One row: how many leases were removed that were not held for so long.
WITH over AS MATERIALIZED (
    SELECT l.name
    FROM mainspring.lease AS l
    WHERE l.expires_at < NOW($3) - $1::interval
    ORDER BY l.expires_at, l.name
    LIMIT $2
    FOR UPDATE SKIP LOCKED
),
removed AS (
    DELETE FROM mainspring.lease WHERE name = ANY (ARRAY(SELECT over.name FROM over)) RETURNING name
)
SELECT count(*) FROM removed

-- name: prune_messages
-- $1 how long ids are guarded, $2 limit, $3 now. One row: how many messages were removed, and whether
-- batches are left over.
WITH clock AS MATERIALIZED (
    SELECT NOW($3) AS now
),
-- Oldest first, as many batches as hold the limit, one at the least.
oldest AS MATERIALIZED (
    SELECT b.id, b.place = 1 OR b.ids <= $2 AS fits
    FROM (
        SELECT e.id, row_number() OVER batches AS place, sum(e.size) OVER batches AS ids
        FROM (
            SELECT id, at, size
            FROM mainspring.ended
            WHERE at < (SELECT clock.now FROM clock) - $1::interval
            ORDER BY at, id
            LIMIT $2 + 1
        ) AS e
        WINDOW batches AS (ORDER BY e.at, e.id ROWS UNBOUNDED PRECEDING)
    ) AS b
),
batch AS MATERIALIZED (
    SELECT e.id, e.at, e.second, e.message_ids
    FROM mainspring.ended AS e
    WHERE e.id = ANY (ARRAY(SELECT oldest.id FROM oldest WHERE oldest.fits))
    ORDER BY e.id
    FOR UPDATE SKIP LOCKED
),
consumed AS (
    DELETE FROM mainspring.ended WHERE id = ANY (ARRAY(SELECT batch.id FROM batch))
),
listed AS MATERIALIZED (
    SELECT each.id, bool_or(batch.second) AS second, max(batch.at) AS at
    FROM batch, unnest(batch.message_ids) AS each (id)
    GROUP BY each.id
),
-- A row that still refers to it enlists it again at its own end.
needed AS MATERIALIZED (
    SELECT message_id FROM mainspring.delivery WHERE message_id = ANY (ARRAY(SELECT listed.id FROM listed))
    UNION ALL
    SELECT message_id FROM mainspring.dead WHERE message_id = ANY (ARRAY(SELECT listed.id FROM listed))
    UNION ALL
    SELECT message_id FROM mainspring.parked WHERE message_id = ANY (ARRAY(SELECT listed.id FROM listed))
    UNION ALL
    SELECT message_id FROM mainspring.run WHERE message_id = ANY (ARRAY(SELECT listed.id FROM listed))
),
unneeded AS MATERIALIZED (
    SELECT m.id, m.copies
    FROM mainspring.message AS m
    WHERE m.id = ANY (ARRAY(SELECT listed.id FROM listed))
      AND m.id NOT IN (SELECT needed.message_id FROM needed)
      -- A batch from before it was published speaks of an earlier life of the same id.
      AND m.published_at <= (SELECT listed.at FROM listed WHERE listed.id = m.id)
    ORDER BY m.id
    FOR UPDATE SKIP LOCKED
),
again AS MATERIALIZED (
    SELECT unneeded.id
    FROM unneeded JOIN listed ON listed.id = unneeded.id
    WHERE unneeded.copies <> 1 AND NOT listed.second
),
-- Another group may have ended it later than the one that enlisted it: its time counts from there.
postponed AS (
    INSERT INTO mainspring.ended (at, size, second, message_ids)
    SELECT (SELECT clock.now FROM clock), count(*), true, array_agg(again.id)
    FROM again
    HAVING count(*) > 0
),
removed AS (
    DELETE FROM mainspring.message
    WHERE id = ANY (ARRAY(SELECT unneeded.id FROM unneeded WHERE unneeded.id NOT IN (SELECT again.id FROM again)))
    RETURNING id
)
-- Where others hold all that fits, they go on.
SELECT
    (SELECT count(*) FROM removed),
    EXISTS (SELECT FROM oldest WHERE NOT oldest.fits) AND EXISTS (SELECT FROM batch)

-- name: prune_parked
-- $1 how long they are kept, $2 limit, $3 now, $4 topic or null. One row: how many parked messages were given up.
WITH OLDER(parked, parked_at),
removed AS (
    DELETE FROM mainspring.parked
    WHERE seq = ANY (ARRAY(TABLE of_every_topic UNION ALL TABLE of_one))
    RETURNING seq, message_id, topic, scheduled_for, published_at, schedule, manual
),
remembered AS (
    INSERT INTO mainspring.run (
        message_id, group_name, topic, attempt, status, started_at, finished_at, error, schedule, source, scheduled_for
    )
    SELECT
        removed.message_id, '', removed.topic, 0, 'cancelled', NOW($3),
        NOW($3), 'no group subscribed to its topic in time',
        removed.schedule,
        RUN_SOURCE(removed),
        removed.scheduled_for
    FROM removed
    ORDER BY removed.seq
),
ENDED(removed, NOW($3)),
counted AS (
    INSERT INTO mainspring.counter AS c (name, value)
    SELECT 'expired_parked', count(*)
    FROM removed
    HAVING count(*) > 0
    ON CONFLICT (name) DO UPDATE SET value = c.value + excluded.value
)
SELECT count(*) FROM removed

-- name: prune_progress
-- $1 limit. One row: how many rows were removed of runs that are over.
WITH over AS MATERIALIZED (
    SELECT p.seq, p.epoch
    FROM mainspring.progress AS p
    -- One by one: the planner shall not read all deliveries for the few that have said something.
    LEFT JOIN LATERAL (
        SELECT true AS held
        FROM mainspring.delivery
        WHERE seq = p.seq AND epoch = p.epoch AND num_nulls(held_by) = 0
        OFFSET 0
    ) AS d ON true
    WHERE d.held IS NULL
    ORDER BY p.seq
    LIMIT $1
),
-- By epoch too: progress of the next holder stays.
locked AS MATERIALIZED (
    SELECT p.seq
    FROM over
    JOIN mainspring.progress AS p ON p.seq = over.seq AND p.epoch = over.epoch
    FOR UPDATE OF p SKIP LOCKED
),
removed AS (
    DELETE FROM mainspring.progress WHERE seq = ANY (ARRAY(SELECT locked.seq FROM locked)) RETURNING seq
)
SELECT count(*) FROM removed

-- name: prune_runs
-- $1 statuses, $2 how long they are kept, $3 limit, $4 now, $5 topic or null. One row: how many runs were removed.
WITH clock AS MATERIALIZED (
    SELECT NOW($4) - $2::interval AS cutoff
),
-- From the oldest on, and from wherever a run picked by chance was: a million dead letters keep the oldest runs
-- for ever, and must not keep us from those behind them.
start (since) AS MATERIALIZED (
    SELECT '-infinity'::timestamptz
    UNION ALL
    SELECT any_run.finished_at
    FROM (
        SELECT
            (SELECT run.id FROM mainspring.run ORDER BY run.id LIMIT 1) AS first,
            (SELECT run.id FROM mainspring.run ORDER BY run.id DESC LIMIT 1) AS last,
            random() AS chance
    ) AS known
    CROSS JOIN LATERAL (
        SELECT run.finished_at
        FROM mainspring.run
        WHERE run.id >= known.first + (known.chance * (known.last - known.first))::bigint
        ORDER BY run.id
        LIMIT 1
    ) AS any_run
),
old AS MATERIALIZED (
    SELECT DISTINCT r.id, r.message_id, r.group_name, r.finished_at
    FROM start
    CROSS JOIN unnest($1::text[]) AS s (status)
    CROSS JOIN LATERAL (
        (
            SELECT run.id, run.message_id, run.group_name, run.finished_at
            FROM mainspring.run
            WHERE $5::text IS NULL
              AND run.status = s.status
              AND run.finished_at >= start.since
              AND run.finished_at < (SELECT clock.cutoff FROM clock)
            ORDER BY run.finished_at
            LIMIT 10 * $3
        )
        -- Written twice, since one condition for both would be answered by one index for both.
        UNION ALL
        (
            SELECT run.id, run.message_id, run.group_name, run.finished_at
            FROM mainspring.run
            WHERE run.topic = $5
              AND run.status = s.status
              AND run.finished_at >= start.since
              AND run.finished_at < (SELECT clock.cutoff FROM clock)
            ORDER BY run.finished_at
            LIMIT 10 * $3
        )
    ) AS r
),
-- A delivery that has not ended keeps all of its errors. (Asked row by row: as a join it may read it all.)
over AS MATERIALIZED (
    SELECT old.id
    FROM old
    WHERE (
        SELECT d.seq FROM mainspring.delivery AS d
        WHERE d.message_id = old.message_id AND d.group_name = old.group_name
    ) IS NULL
      AND (
        SELECT d.seq FROM mainspring.dead AS d
        WHERE d.message_id = old.message_id AND d.group_name = old.group_name
    ) IS NULL
    ORDER BY old.finished_at, old.id
    LIMIT $3
),
removed AS (
    DELETE FROM mainspring.run
    WHERE id = ANY (
        ARRAY(
            SELECT r.id FROM mainspring.run AS r WHERE r.id = ANY (ARRAY(SELECT over.id FROM over))
            ORDER BY r.id FOR UPDATE SKIP LOCKED
        )
    )
    RETURNING message_id
),
ENDED(removed, NOW($4))
SELECT count(*) FROM removed

-- name: prune_schedules
-- $1 how long they are kept, $2 limit, $3 now. One row: how many were removed of those made at run time that are over.
WITH over AS MATERIALIZED (
    SELECT s.name
    FROM mainspring.schedule AS s
    WHERE s.origin = 'api'
      AND s.next_at IS NULL
      AND s.paused_at IS NULL
      AND s.base_at < NOW($3) - $1::interval
    ORDER BY s.name
    LIMIT $2
    FOR UPDATE SKIP LOCKED
),
removed AS (
    DELETE FROM mainspring.schedule WHERE name = ANY (ARRAY(SELECT over.name FROM over)) RETURNING name
)
SELECT count(*) FROM removed

-- name: topics_dead
-- $1 now, $2 after which topic, $3 how many. The topics that have dead letters, and the age of the oldest: from one topic to
-- the next by the index, here and below, so that it costs what there are topics, not what there are rows.
WITH RECURSIVE TOPICS(dead, $2, $3)
OLDEST(dead, buried_at, NOW($1))

-- name: topics_parked
-- $1 now, $2 after which topic, $3 how many. The topics that have parked messages, and the age of the oldest.
WITH RECURSIVE TOPICS(parked, $2, $3)
OLDEST(parked, parked_at, NOW($1))

-- name: topics_ran
-- $1 statuses, $2 now, $3 after which topic, $4 how many. The topics that have runs, and the age of the oldest of these
-- statuses, null where there is none.
WITH RECURSIVE TOPICS(run, $3, $4)
SELECT known.topic, NOW($2) - min(oldest.finished_at)
FROM known
CROSS JOIN unnest($1::text[]) AS s (status)
LEFT JOIN LATERAL (
    SELECT r.finished_at
    FROM mainspring.run AS r
    WHERE r.topic = known.topic AND r.status = s.status
    ORDER BY r.finished_at
    LIMIT 1
) AS oldest ON true
WHERE known.topic IS NOT NULL
GROUP BY known.topic
ORDER BY known.topic
