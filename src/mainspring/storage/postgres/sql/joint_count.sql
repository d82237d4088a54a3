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
