-- $1 before, $2 how many; $3 topic, $4 key, $5 since, $6 until: each may be null. One row: how many were looked at, the
-- last of them, and which are worth another look.
SELECT count(*), min(w.seq), coalesce(array_agg(w.seq) FILTER (WHERE w.hit), '{}')
FROM (
    SELECT
        p.seq,
        ($3::text IS NULL OR p.topic = $3)
        AND ($4::text IS NULL OR p.key = $4)
        AND ($5::timestamptz IS NULL OR p.published_at >= $5)
        AND ($6::timestamptz IS NULL OR p.published_at < $6) AS hit
    FROM mainspring.parked AS p
    WHERE p.seq < $1
    ORDER BY p.seq DESC
    LIMIT $2
) AS w
