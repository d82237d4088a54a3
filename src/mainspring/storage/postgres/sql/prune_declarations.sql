-- $1 how long what a silent process has declared is kept, $2 limit, $3 now.
DELETE FROM mainspring.declaration
WHERE (worker, start_id) IN (
    SELECT d.worker, d.start_id
    FROM mainspring.declaration AS d
    WHERE d.seen_at < coalesce($3::timestamptz, statement_timestamp()) - $1::interval
    ORDER BY d.worker, d.start_id
    LIMIT $2
    FOR UPDATE SKIP LOCKED
)
