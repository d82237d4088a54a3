-- $1 before, $2 how many; $3 state (live, scheduled, ready, running, lapsed, retrying), $4 group, $5 key, $6 held by, $7 since, $8 until:
-- each but the state may be null; $9 now. One row: how many were looked at, the last of them, and which are worth another
-- look.
SELECT count(*), min(w.seq), coalesce(array_agg(w.seq) FILTER (WHERE w.hit), '{}')
FROM (
    SELECT
        d.seq,
        CASE $3::text
            WHEN 'running' THEN d.held_by IS NOT NULL AND d.due_at > coalesce($9::timestamptz, statement_timestamp())
            WHEN 'lapsed' THEN d.held_by IS NOT NULL AND d.due_at <= coalesce($9::timestamptz, statement_timestamp())
            WHEN 'retrying' THEN d.held_by IS NULL AND d.attempt > 0
            WHEN 'ready' THEN d.held_by IS NULL AND d.due_at <= coalesce($9::timestamptz, statement_timestamp())
            WHEN 'scheduled' THEN d.held_by IS NULL AND d.due_at > coalesce($9::timestamptz, statement_timestamp())
            ELSE true
        END
        AND ($4::text IS NULL OR d.group_name = $4)
        AND ($5::text IS NULL OR d.key = $5)
        AND ($6::text IS NULL OR d.held_by = $6 OR left(d.held_by, -16) = $6 || '~')
        AND ($7::timestamptz IS NULL OR d.published_at >= $7)
        AND ($8::timestamptz IS NULL OR d.published_at < $8) AS hit
    FROM mainspring.delivery AS d
    WHERE d.seq < $1
    ORDER BY d.seq DESC
    LIMIT $2
) AS w
