-- $1 limit. Counts so many ends of members, and answers the joins that are complete by that, which are removed: (id, what
-- follows when all are done, what follows otherwise, done, failed), by id.
WITH taken AS MATERIALIZED (
    SELECT e.id, e.join_id, e.done, e.failed
    FROM mainspring.joint_end AS e
    ORDER BY e.id
    LIMIT $1
    FOR UPDATE SKIP LOCKED
),
counted AS (
    DELETE FROM mainspring.joint_end WHERE id = ANY (ARRAY(SELECT taken.id FROM taken))
),
ended AS MATERIALIZED (
    SELECT taken.join_id, sum(taken.done)::integer AS done, sum(taken.failed)::integer AS failed
    FROM taken
    GROUP BY taken.join_id
    ORDER BY taken.join_id
),
-- Two may count for one join at a time. The lock, taken in the order of ids, shows the second what the first has written.
seen AS MATERIALIZED (
    SELECT
        j.id, j.on_done, j.on_failed, j.done + ended.done AS done, j.failed + ended.failed AS failed,
        j.pending - ended.done - ended.failed AS pending
    FROM ended
    CROSS JOIN LATERAL (SELECT * FROM mainspring.joint WHERE id = ended.join_id FOR UPDATE) AS j
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
