-- Joins: members, ends, what follows.

-- name: joint_count
-- $1 limit. Counts so many ends of members, and answers the joins that are complete by that, which are removed: (id, what
-- follows when all are done, what follows otherwise, done, failed), by id.
WITH head AS MATERIALIZED (
    SELECT DISTINCT e.join_id
    FROM (SELECT join_id FROM mainspring.joint_end ORDER BY id LIMIT $1) AS e
    ORDER BY e.join_id
),
-- Two may count for one join at a time, and another session may have it locked for long: its ends are passed over, and stay (invariant
-- 28). The lock, taken in the order of ids, shows the second what the first has written.
free AS MATERIALIZED (
    SELECT j.id
    FROM head
    CROSS JOIN LATERAL (SELECT id FROM mainspring.joint WHERE id = head.join_id FOR UPDATE SKIP LOCKED) AS j
),
busy AS MATERIALIZED (
    SELECT head.join_id
    FROM head
    CROSS JOIN LATERAL (SELECT id FROM mainspring.joint WHERE id = head.join_id OFFSET 0) AS j
    WHERE head.join_id NOT IN (SELECT free.id FROM free)
),
taken AS MATERIALIZED (
    SELECT e.id, e.join_id, e.done, e.failed
    FROM mainspring.joint_end AS e
    WHERE e.join_id <> ALL (ARRAY(SELECT busy.join_id FROM busy))
    ORDER BY e.id
    LIMIT $1
    FOR UPDATE SKIP LOCKED
),
ended AS MATERIALIZED (
    SELECT taken.join_id, sum(taken.done)::integer AS done, sum(taken.failed)::integer AS failed
    FROM taken
    GROUP BY taken.join_id
    ORDER BY taken.join_id
),
seen AS MATERIALIZED (
    SELECT
        j.id, j.on_done, j.on_failed, j.done + ended.done AS done, j.failed + ended.failed AS failed,
        j.pending - ended.done - ended.failed AS pending
    FROM ended
    CROSS JOIN LATERAL (SELECT * FROM mainspring.joint WHERE id = ended.join_id FOR UPDATE SKIP LOCKED) AS j
),
counted AS (
    DELETE FROM mainspring.joint_end
    WHERE id = ANY (
        ARRAY(
            SELECT taken.id
            FROM taken
            WHERE taken.join_id IN (SELECT seen.id FROM seen)
               OR NOT EXISTS (SELECT FROM mainspring.joint AS j WHERE j.id = taken.join_id)
        )
    )
),
over AS (
    DELETE FROM mainspring.joint WHERE id = ANY (ARRAY(SELECT seen.id FROM seen WHERE seen.pending <= 0))
),
going_on AS (
    UPDATE mainspring.joint AS j
    SET (pending, done, failed) = (SELECT seen.pending, seen.done, seen.failed FROM seen WHERE seen.id = j.id)
    WHERE j.id = ANY (ARRAY(SELECT seen.id FROM seen WHERE seen.pending > 0))
)
SELECT seen.id, seen.on_done, seen.on_failed, seen.done, seen.failed
FROM seen
WHERE seen.pending <= 0
ORDER BY seen.id

-- name: joint_gone
-- $1 first id, $2 limit. One row: the joins among so many that have members with uncounted ends, and the last of all, null
-- when there are no more. Only a question, and a cheap one: joint_recount asks again before it writes.
WITH page AS MATERIALIZED (
    SELECT j.id, j.pending FROM mainspring.joint AS j WHERE j.id >= $1 ORDER BY j.id LIMIT $2
)
SELECT
    ARRAY(
        SELECT page.id
        FROM page
        WHERE page.pending
            > (SELECT coalesce(sum(e.done + e.failed), 0) FROM mainspring.joint_end AS e WHERE e.join_id = page.id)
            + (SELECT count(*) FROM mainspring.delivery AS d WHERE d.join_id = page.id)
    ),
    (SELECT page.id FROM page ORDER BY page.id OFFSET $2 - 1)

-- name: joint_read
-- $1 first id, $2 last id, $3 limit, $4 now. Open joins by id: what portable.joins.join_view takes, then the oldest member
-- that has not ended, with columns in the order of model.views.DeliveryView, or nulls.
SELECT
    j.id, j.opened_at, j.pending + j.done + j.failed, j.done + j.failed + noted.done + noted.failed,
    j.failed + noted.failed, j.on_done::json ->> 'topic', j.on_done::json ->> 'group', j.on_failed::json ->> 'topic',
    j.on_failed::json ->> 'group', coalesce(j.on_done, j.on_failed)::json ->> 'key',
    coalesce(j.on_done, j.on_failed)::json ->> 'correlation_id', oldest.*
FROM (
    SELECT * FROM mainspring.joint WHERE id BETWEEN $1 AND $2 ORDER BY id LIMIT $3
) AS j
-- What has ended and is not counted yet has ended all the same.
CROSS JOIN LATERAL (
    SELECT coalesce(sum(e.done), 0)::integer AS done, coalesce(sum(e.failed), 0)::integer AS failed
    FROM mainspring.joint_end AS e
    WHERE e.join_id = j.id
) AS noted
LEFT JOIN LATERAL (
    SELECT DELIVERY_COLUMNS(NOW($4))
    FROM mainspring.delivery AS d
    LOOKUP(message, m, id, d.message_id)
    PROGRESS()
    WHERE d.join_id = j.id
    ORDER BY d.seq
    LIMIT 1
) AS oldest ON true
ORDER BY j.id

-- name: joint_recount
-- $1 joins, $2 channel. One row: how many uncounted ends of their members.
WITH page AS MATERIALIZED (
    SELECT j.id, j.opened_at, j.pending, j.failed FROM mainspring.joint AS j WHERE j.id = ANY ($1::uuid[])
),
-- What is pending has a delivery, or a note that is not counted yet: both come and go with the count, in one statement each,
-- so that one snapshot shows them in step. What is pending beyond that has gone without a note.
gone AS MATERIALIZED (
    SELECT
        page.id, page.opened_at, page.pending, page.failed + noted.failed AS failed,
        page.pending - noted.size - live.size AS size
    FROM page
    CROSS JOIN LATERAL (
        SELECT coalesce(sum(e.done + e.failed), 0)::integer AS size, coalesce(sum(e.failed), 0)::integer AS failed
        FROM mainspring.joint_end AS e
        WHERE e.join_id = page.id
    ) AS noted
    CROSS JOIN LATERAL (
        SELECT count(*)::integer AS size FROM mainspring.delivery AS d WHERE d.join_id = page.id
    ) AS live
    WHERE page.pending - noted.size > live.size
),
-- Every burial and cancel leaves a run, whatever is kept of successes. Status by status and in the order of run_age, so that
-- only what has failed since then is read.
failures AS MATERIALIZED (
    SELECT (m.headers::json ->> 'mainspring-join-member')::uuid AS join_id, count(DISTINCT r.message_id)::integer AS size
    FROM unnest('{dead,cancelled}'::text[]) AS ending (status)
    CROSS JOIN LATERAL (
        SELECT run.message_id
        FROM mainspring.run
        WHERE run.status = ending.status AND run.finished_at >= (SELECT min(gone.opened_at) FROM gone)
        ORDER BY run.finished_at
        OFFSET 0
    ) AS r
    CROSS JOIN LATERAL (SELECT headers FROM mainspring.message WHERE id = r.message_id OFFSET 0) AS m
    WHERE m.headers LIKE '%"mainspring-join-member"%'
      AND (m.headers::json ->> 'mainspring-join-member') IN (SELECT gone.id::text FROM gone)
    GROUP BY 1
),
-- pending only falls: where it is still what we saw, no other session has recounted since. Locked rows are left.
seen AS MATERIALIZED (
    SELECT gone.id, gone.size, least(gone.size, greatest(coalesce(failures.size, 0) - gone.failed, 0)) AS failed
    FROM gone
    LEFT JOIN failures ON failures.join_id = gone.id
    CROSS JOIN LATERAL (
        SELECT FROM mainspring.joint WHERE id = gone.id AND pending = gone.pending FOR UPDATE SKIP LOCKED
    ) AS j
),
mended AS (
    UPDATE mainspring.joint AS j
    SET (pending, done, failed) = (
        SELECT j.pending - seen.size, j.done + seen.size - seen.failed, j.failed + seen.failed
        FROM seen
        WHERE seen.id = j.id
    )
    WHERE j.id = ANY (ARRAY(SELECT seen.id FROM seen))
),
-- An end that counts nothing: by it the next look finds the join, which may be complete.
noted AS (
    INSERT INTO mainspring.joint_end (join_id, done, failed) SELECT seen.id, 0, 0 FROM seen
),
rung AS MATERIALIZED (
    SELECT count(mainspring.ring($2, '')) FROM (SELECT FROM seen LIMIT 1) AS one
)
SELECT (SELECT coalesce(sum(seen.size), 0)::integer FROM seen)
-- rung is named here because nothing else would have it run.
FROM rung
