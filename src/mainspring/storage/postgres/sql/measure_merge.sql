-- $1 spans in seconds, $2 limit, $3 now. Adds the slots of spans that are over to one count each. One row: how many were
-- moved. What a late beat adds to such a span afterwards is moved the next time.
WITH over AS MATERIALIZED (
    SELECT m.span, m.at, m.slot, m.group_name, m.what, m.bin
    FROM unnest($1::integer[]) AS s (span)
    CROSS JOIN LATERAL (
        SELECT span, at, slot, group_name, what, bin
        FROM mainspring.measure_slot
        WHERE span = s.span
          AND at < coalesce($3::timestamptz, statement_timestamp()) - s.span * interval '1 second'
        ORDER BY at
        LIMIT $2
        FOR UPDATE SKIP LOCKED
    ) AS m
    -- Who has locked a count that they are added to is waited for no longer.
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
