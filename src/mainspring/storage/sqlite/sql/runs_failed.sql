-- ?1 prefix of topics: may be null; ?2 limit. The last to end first. Not more than the last two thousand of each kind are
-- looked at for those of the prefix.
SELECT id, message_id, group_name, topic, attempt, status, started_at, finished_at, node, kind, error, traceback, output,
       coalesce(source, 'message'), schedule, scheduled_for
FROM (
    SELECT *
    FROM (
        SELECT *
        FROM (SELECT * FROM mainspring_run WHERE status = 'failed' ORDER BY finished_at DESC LIMIT 2000)
        WHERE (?1 IS NULL OR (substr(topic, 1, length(?1)) = ?1 AND instr(substr(topic, length(?1) + 1), '/') = 0))
        LIMIT ?2
    )
    UNION ALL
    SELECT *
    FROM (
        SELECT *
        FROM (SELECT * FROM mainspring_run WHERE status = 'dead' ORDER BY finished_at DESC LIMIT 2000)
        WHERE (?1 IS NULL OR (substr(topic, 1, length(?1)) = ?1 AND instr(substr(topic, length(?1) + 1), '/') = 0))
        LIMIT ?2
    )
)
ORDER BY finished_at DESC, id DESC
LIMIT ?2
