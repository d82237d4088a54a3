-- ?1 before, ?2 how many; ?3 group, ?4 topic, ?5 key, ?6 text of the error, ?7 since, ?8 until, ?9 fingerprint: each
-- may be null. One row: how many were looked at, the last of them, and which are worth another look.
SELECT count(*), min(seq), json_group_array(seq) FILTER (WHERE hit)
FROM (
    SELECT
        d.seq,
        (?3 IS NULL OR d.group_name = ?3)
        AND (?4 IS NULL OR d.topic = ?4)
        AND (?5 IS NULL OR d.key = ?5)
        AND (?6 IS NULL OR instr(lower(d.error), lower(?6)))
        AND (?7 IS NULL OR d.published_at >= ?7)
        AND (?8 IS NULL OR d.published_at < ?8)
        AND (?9 IS NULL OR d.fingerprint = ?9) AS hit
    FROM mainspring_dead AS d
    WHERE d.seq < ?1
    ORDER BY d.seq DESC
    LIMIT ?2
)
