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
-- By epoch too: whoever holds it next may have said something meanwhile, and that stays.
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
