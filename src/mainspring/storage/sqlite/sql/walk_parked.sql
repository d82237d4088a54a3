-- ?1 before, ?2 how many; ?3 topic, ?4 key, ?5 since, ?6 until: each may be null. One row: how many were looked at, the
-- last of them, and which are worth another look.
SELECT count(*), min(seq), json_group_array(seq) FILTER (WHERE hit)
FROM (
    SELECT
        p.seq,
        (?3 IS NULL OR p.topic = ?3)
        AND (?4 IS NULL OR p.key = ?4)
        AND (?5 IS NULL OR p.published_at >= ?5)
        AND (?6 IS NULL OR p.published_at < ?6) AS hit
    FROM mainspring_parked AS p
    WHERE p.seq < ?1
    ORDER BY p.seq DESC
    LIMIT ?2
)
