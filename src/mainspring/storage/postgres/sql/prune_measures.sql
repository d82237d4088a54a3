-- $1 spans in seconds, $2 for how many seconds the rows of each are kept, $3 limit, $4 now. One row: how many were removed.
WITH over AS MATERIALIZED (
    SELECT m.span, m.at, m.group_name, m.what, m.bin
    FROM unnest($1::integer[], $2::integer[]) AS kept (span, seconds)
    CROSS JOIN LATERAL (
        SELECT span, at, group_name, what, bin
        FROM mainspring.measure
        WHERE span = kept.span
          AND at < coalesce($4::timestamptz, statement_timestamp()) - kept.seconds * interval '1 second'
        ORDER BY at, group_name, what, bin
        LIMIT $3
        FOR UPDATE SKIP LOCKED
    ) AS m
    LIMIT $3
),
removed AS (
    DELETE FROM mainspring.measure AS m
    USING over
    WHERE m.span = over.span
      AND m.at = over.at
      AND m.group_name = over.group_name
      AND m.what = over.what
      AND m.bin = over.bin
    RETURNING 1
)
SELECT count(*) FROM removed
