-- Counts of runs over time.

-- name: measure_merge
-- $1 spans in seconds, $2 limit, $3 now. Adds the slots of spans that are over to one count each. One row: how many were
-- moved. What a late beat adds to such a span afterwards is moved the next time.
WITH over AS MATERIALIZED (
    SELECT m.span, m.at, m.slot, m.group_name, m.what, m.bin
    FROM unnest($1::integer[]) AS s (span)
    CROSS JOIN LATERAL (
        SELECT span, at, slot, group_name, what, bin
        FROM mainspring.measure_slot
        WHERE span = s.span
          AND at < NOW($3) - s.span * interval '1 second'
        ORDER BY at
        LIMIT $2
        FOR UPDATE SKIP LOCKED
    ) AS m
    -- A locked count is waited for no longer.
    WHERE set_config('lock_timeout', '1000', true) IS NOT NULL
    LIMIT $2
),
moved AS (
    DELETE FROM mainspring.measure_slot AS m
    USING over
    WHERE m.span = over.span
      AND m.group_name = over.group_name
      AND m.at = over.at
      AND m.slot = over.slot
      AND m.what = over.what
      AND m.bin = over.bin
    RETURNING m.span, m.at, m.group_name, m.what, m.bin, m.count
),
-- In the order in which beats of earlier releases add to the same rows.
added AS (
    INSERT INTO mainspring.measure AS m (span, at, group_name, what, bin, count)
    SELECT moved.span, moved.at, moved.group_name, moved.what, moved.bin, sum(moved.count)
    FROM moved
    GROUP BY moved.span, moved.at, moved.group_name, moved.what, moved.bin
    ORDER BY moved.span, moved.at, moved.group_name, moved.what, moved.bin
    ON CONFLICT (span, group_name, at, what, bin) DO UPDATE SET count = m.count + excluded.count
)
SELECT count(*) FROM moved

-- name: measure_rates
-- $1 span in seconds, $2 how far back from the present span, $3 now. Rows as in measure_read.sql, with a group
-- instead of a time.
WITH clock AS MATERIALIZED (
    SELECT NOW($3) AS now
),
since AS MATERIALIZED (
    SELECT to_timestamp(floor(extract(epoch FROM clock.now) / $1::integer) * $1::integer) - $2::interval AS at FROM clock
),
both_tables AS (
    SELECT m.group_name, m.what, m.bin, m.count
    FROM mainspring.measure AS m
    WHERE m.span = $1::integer AND m.at >= (SELECT since.at FROM since)
    UNION ALL
    SELECT m.group_name, m.what, m.bin, m.count
    FROM mainspring.measure_slot AS m
    WHERE m.span = $1::integer AND m.at >= (SELECT since.at FROM since)
),
counted AS (
    SELECT m.group_name, m.what, m.bin, sum(m.count)::bigint AS count
    FROM both_tables AS m
    WHERE m.group_name <> ''
    GROUP BY m.group_name, m.what, m.bin
)
SELECT clock.now, counted.group_name, counted.what, counted.bin, counted.count
FROM clock
LEFT JOIN counted ON true

-- name: measure_read
-- $1 span in seconds, $2 how far back from the present span, $3 the group, empty for all together; $4 now.
-- Every row begins with the time it was read at; where nothing was counted there is one row, with nothing else.
WITH clock AS MATERIALIZED (
    SELECT NOW($4) AS now
),
since AS MATERIALIZED (
    SELECT to_timestamp(floor(extract(epoch FROM clock.now) / $1::integer) * $1::integer) - $2::interval AS at FROM clock
),
counted AS (
    SELECT m.at, m.what, m.bin, m.count
    FROM mainspring.measure AS m
    WHERE m.span = $1::integer AND m.group_name = $3::text AND m.at >= (SELECT since.at FROM since)
    UNION ALL
    SELECT m.at, m.what, m.bin, sum(m.count)::bigint
    FROM mainspring.measure_slot AS m
    WHERE m.span = $1::integer AND m.group_name = $3::text AND m.at >= (SELECT since.at FROM since)
    GROUP BY m.at, m.what, m.bin
)
SELECT clock.now, counted.at, counted.what, counted.bin, counted.count
FROM clock
LEFT JOIN counted ON true

-- name: prune_measures
-- $1 spans in seconds, $2 for how many seconds the rows of each are kept, $3 limit, $4 now. One row: how many were removed.
WITH over AS MATERIALIZED (
    SELECT m.span, m.at, m.group_name, m.what, m.bin
    FROM unnest($1::integer[], $2::integer[]) AS kept (span, seconds)
    CROSS JOIN LATERAL (
        SELECT span, at, group_name, what, bin
        FROM mainspring.measure
        WHERE span = kept.span
          AND at < NOW($4) - kept.seconds * interval '1 second'
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
