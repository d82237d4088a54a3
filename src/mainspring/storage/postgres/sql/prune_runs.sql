-- $1 statuses, $2 how long they are kept, $3 limit, $4 now, $5 topic or null. One row: how many runs were removed.
WITH clock AS MATERIALIZED (
    SELECT coalesce($4::timestamptz, statement_timestamp()) - $2::interval AS cutoff
),
-- From the oldest on, and from wherever a run picked by chance was: a million dead letters keep the oldest runs
-- for ever, and must not keep us from those behind them.
start (since) AS MATERIALIZED (
    SELECT '-infinity'::timestamptz
    UNION ALL
    SELECT any_run.finished_at
    FROM (
        SELECT
            (SELECT run.id FROM mainspring.run ORDER BY run.id LIMIT 1) AS first,
            (SELECT run.id FROM mainspring.run ORDER BY run.id DESC LIMIT 1) AS last,
            random() AS chance
    ) AS known
    CROSS JOIN LATERAL (
        SELECT run.finished_at
        FROM mainspring.run
        WHERE run.id >= known.first + (known.chance * (known.last - known.first))::bigint
        ORDER BY run.id
        LIMIT 1
    ) AS any_run
),
old AS MATERIALIZED (
    SELECT DISTINCT r.id, r.message_id, r.group_name, r.finished_at
    FROM start
    CROSS JOIN unnest($1::text[]) AS s (status)
    CROSS JOIN LATERAL (
        (
            SELECT run.id, run.message_id, run.group_name, run.finished_at
            FROM mainspring.run
            WHERE $5::text IS NULL
              AND run.status = s.status
              AND run.finished_at >= start.since
              AND run.finished_at < (SELECT clock.cutoff FROM clock)
            ORDER BY run.finished_at
            LIMIT 10 * $3
        )
        -- Written twice, since one condition for both would be answered by one index for both.
        UNION ALL
        (
            SELECT run.id, run.message_id, run.group_name, run.finished_at
            FROM mainspring.run
            WHERE run.topic = $5
              AND run.status = s.status
              AND run.finished_at >= start.since
              AND run.finished_at < (SELECT clock.cutoff FROM clock)
            ORDER BY run.finished_at
            LIMIT 10 * $3
        )
    ) AS r
),
-- Who is not through yet keeps every error it met. (Asked row by row: as a join it may read it all.)
over AS MATERIALIZED (
    SELECT old.id
    FROM old
    WHERE (
        SELECT d.seq FROM mainspring.delivery AS d
        WHERE d.message_id = old.message_id AND d.group_name = old.group_name
    ) IS NULL
      AND (
        SELECT d.seq FROM mainspring.dead AS d
        WHERE d.message_id = old.message_id AND d.group_name = old.group_name
    ) IS NULL
    ORDER BY old.finished_at, old.id
    LIMIT $3
),
removed AS (
    DELETE FROM mainspring.run
    WHERE id = ANY (
        ARRAY(
            SELECT r.id FROM mainspring.run AS r WHERE r.id = ANY (ARRAY(SELECT over.id FROM over))
            ORDER BY r.id FOR UPDATE SKIP LOCKED
        )
    )
    RETURNING message_id
),
ended AS (
    INSERT INTO mainspring.ended (at, size, second, message_ids)
    SELECT
        coalesce($4::timestamptz, statement_timestamp()), count(DISTINCT removed.message_id), false,
        array_agg(DISTINCT removed.message_id)
    FROM removed
    HAVING count(*) > 0
)
SELECT count(*) FROM removed
