-- ?1 before, ?2 how many; ?3 state, ?4 group, ?5 key, ?6 held by, ?7 since, ?8 until: each but the state may be null; ?9
-- now. One row: how many were looked at, the last of them, and which are worth another look.
SELECT count(*), min(seq), json_group_array(seq) FILTER (WHERE hit)
FROM (
    SELECT d.seq,
           CASE ?3
               WHEN 'live' THEN 1
               WHEN 'running' THEN d.held_by IS NOT NULL AND d.due_at > ?9
               WHEN 'lapsed' THEN d.held_by IS NOT NULL AND d.due_at <= ?9
               WHEN 'retrying' THEN d.held_by IS NULL AND d.attempt > 0
               WHEN 'ready' THEN d.held_by IS NULL AND d.due_at <= ?9
               ELSE d.held_by IS NULL AND d.due_at > ?9
           END
           AND (?4 IS NULL OR d.group_name = ?4)
           AND (?5 IS NULL OR d.key = ?5)
           AND (?6 IS NULL OR d.held_by = ?6 OR substr(d.held_by, 1, length(d.held_by) - 16) = ?6 || '~')
           AND (?7 IS NULL OR d.published_at >= ?7)
           AND (?8 IS NULL OR d.published_at < ?8) AS hit
    FROM mainspring_delivery AS d
    WHERE d.seq < ?1
    ORDER BY d.seq DESC
    LIMIT ?2
)
