-- $1 joins, $2 channel. One row: how many ends of their members nobody had noted.
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
-- pending only falls: where it is still what we saw, nobody else has recounted since. What another has in hand is left.
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
-- The end of nobody: by it whoever looks next sees to the join, which may be complete.
noted AS (
    INSERT INTO mainspring.joint_end (join_id, done, failed) SELECT seen.id, 0, 0 FROM seen
),
rung AS MATERIALIZED (
    SELECT count(mainspring.ring($2, '')) FROM (SELECT FROM seen LIMIT 1) AS one
)
SELECT (SELECT coalesce(sum(seen.size), 0)::integer FROM seen)
-- rung is named here because nothing else would have it run.
FROM rung
