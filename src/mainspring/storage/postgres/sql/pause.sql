-- $1 group, $2 by whom, $3 reason, $4 now. Answers one row when there is such a group.
WITH paused AS (
    UPDATE mainspring.groups
    SET paused_at = coalesce($4::timestamptz, statement_timestamp()), paused_by = $2, pause_reason = $3
    WHERE name = $1
    RETURNING name
)
INSERT INTO mainspring.audit (at, by_whom, action, subject, detail)
SELECT coalesce($4::timestamptz, statement_timestamp()), $2, 'pause', paused.name, $3
FROM paused
RETURNING id
