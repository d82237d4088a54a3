-- $1 how long they are kept, $2 limit, $3 now, $4 topic or null. One row: how many dead letters were removed.
WITH over AS MATERIALIZED (
    SELECT d.seq
    FROM mainspring.dead AS d
    WHERE d.buried_at < coalesce($3::timestamptz, statement_timestamp()) - $1::interval
      AND ($4::text IS NULL OR d.topic = $4)
    ORDER BY d.buried_at
    LIMIT $2
    FOR UPDATE SKIP LOCKED
),
removed AS (
    DELETE FROM mainspring.dead WHERE seq = ANY (ARRAY(SELECT over.seq FROM over)) RETURNING message_id
),
ended AS (
    INSERT INTO mainspring.ended (at, size, second, message_ids)
    SELECT
        coalesce($3::timestamptz, statement_timestamp()), count(DISTINCT removed.message_id), false,
        array_agg(DISTINCT removed.message_id)
    FROM removed
    HAVING count(*) > 0
)
SELECT count(*) FROM removed
