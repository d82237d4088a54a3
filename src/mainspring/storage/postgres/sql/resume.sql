-- $1 group, $2 by whom, $3 channel, $4 now. Answers one row when there is such a group.
WITH resumed AS (
    UPDATE mainspring.groups
    SET paused_at = NULL, paused_by = NULL, pause_reason = NULL
    WHERE name = $1
    RETURNING name
),
noted AS (
    INSERT INTO mainspring.audit (at, by_whom, action, subject, detail)
    SELECT coalesce($4::timestamptz, statement_timestamp()), $2, 'resume', resumed.name, ''
    FROM resumed
    RETURNING id
)
-- Whether anything is due is found out by whoever is woken.
SELECT noted.id, mainspring.ring($3, $1)
FROM noted
