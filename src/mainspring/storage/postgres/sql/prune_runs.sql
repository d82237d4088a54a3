-- $1 statuses, $2 how long they are kept, $3 limit, $4 now. One row: how many runs were removed.
WITH over AS MATERIALIZED (
    SELECT r.id
    FROM unnest($1::text[]) AS s (status)
    CROSS JOIN LATERAL (
        SELECT id, message_id, group_name, finished_at
        FROM mainspring.run
        WHERE status = s.status AND finished_at < coalesce($4::timestamptz, statement_timestamp()) - $2::interval
          -- Who is not through yet keeps every error it met. (Asked row by row: as a join it may read it all.)
          AND (
              SELECT d.seq FROM mainspring.delivery AS d
              WHERE d.message_id = run.message_id AND d.group_name = run.group_name
          ) IS NULL
          AND (
              SELECT d.seq FROM mainspring.dead AS d
              WHERE d.message_id = run.message_id AND d.group_name = run.group_name
          ) IS NULL
        ORDER BY finished_at
        LIMIT $3
    ) AS r
    ORDER BY r.finished_at, r.id
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
