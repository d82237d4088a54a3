-- ?1 before, ?2 how many; ?3 status, ?4 group, ?5 topic, ?6 text of the error: each but the status may be null. One
-- row: how many were looked at, the last of them, and which are worth another look.
SELECT count(*), min(id), json_group_array(id) FILTER (WHERE hit)
FROM (
    SELECT
        r.id,
        r.status = ?3
        AND (?4 IS NULL OR r.group_name = ?4)
        AND (?5 IS NULL OR r.topic = ?5)
        AND (?6 IS NULL OR instr(lower(coalesce(r.error, '')), lower(?6))) AS hit
    FROM mainspring_run AS r
    WHERE r.id < ?1
    ORDER BY r.id DESC
    LIMIT ?2
)
