-- $1 how long they are kept, $2 limit, $3 now, $4 topic or null. One row: how many dead letters were removed.
WITH everywhere AS MATERIALIZED (
    SELECT d.seq
    FROM mainspring.dead AS d
    WHERE $4::text IS NULL AND d.buried_at < coalesce($3::timestamptz, statement_timestamp()) - $1::interval
    ORDER BY d.buried_at
    LIMIT $2
    FOR UPDATE SKIP LOCKED
),
-- Written twice, since one condition for both would be answered by one index for both.
there AS MATERIALIZED (
    SELECT d.seq
    FROM mainspring.dead AS d
    WHERE d.topic = $4 AND d.buried_at < coalesce($3::timestamptz, statement_timestamp()) - $1::interval
    ORDER BY d.buried_at
    LIMIT $2
    FOR UPDATE SKIP LOCKED
),
removed AS (
    DELETE FROM mainspring.dead WHERE seq = ANY (ARRAY(TABLE everywhere UNION ALL TABLE there)) RETURNING message_id
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
