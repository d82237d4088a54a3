-- $1 span in seconds, $2 how far back from the present span, $3 now. Rows as in measure_read.sql, with a group
-- instead of a time.
WITH clock AS MATERIALIZED (
    SELECT coalesce($3::timestamptz, statement_timestamp()) AS now
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
