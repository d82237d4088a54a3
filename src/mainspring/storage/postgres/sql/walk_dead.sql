-- $1 before, $2 how many; $3 group, $4 topic, $5 key, $6 text of the error, $7 since, $8 until, $9 fingerprint: each
-- may be null. One row: how many were looked at, the last of them, and which are worth another look.
SELECT count(*), min(w.seq), coalesce(array_agg(w.seq) FILTER (WHERE w.hit), '{}')
FROM (
    SELECT
        d.seq,
        ($3::text IS NULL OR d.group_name = $3)
        AND ($4::text IS NULL OR d.topic = $4)
        AND ($5::text IS NULL OR d.key = $5)
        AND ($6::text IS NULL OR position(lower($6) IN lower(d.error)) > 0)
        AND ($7::timestamptz IS NULL OR d.published_at >= $7)
        AND ($8::timestamptz IS NULL OR d.published_at < $8)
        AND ($9::text IS NULL OR d.fingerprint = $9) AS hit
    FROM mainspring.dead AS d
    WHERE d.seq < $1
    ORDER BY d.seq DESC
    LIMIT $2
) AS w
