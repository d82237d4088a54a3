-- $1 worker, $2 by whom, $3 action, $4 detail, $5 whether it is to drain, $6 now. Answers one row when there is such a worker.
WITH told AS (
    UPDATE mainspring.worker
    SET draining_at = CASE
            WHEN $5::boolean THEN coalesce(draining_at, $6::timestamptz, statement_timestamp())
        END,
        drained_by = CASE WHEN $5 THEN $2::text END
    WHERE name = $1
    RETURNING name
)
INSERT INTO mainspring.audit (at, by_whom, action, subject, detail)
SELECT coalesce($6::timestamptz, statement_timestamp()), $2, $3, told.name, $4
FROM told
RETURNING id
