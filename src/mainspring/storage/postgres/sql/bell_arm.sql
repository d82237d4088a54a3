-- $1 groups, $2 whose ear, $3 for how long, $4 now. A row per ear: one worker that wakes must not silence the bell
-- of another that sleeps on. One that another session has locked is left as it is: without it the worker looks by itself.
WITH free AS MATERIALIZED (
    SELECT b.group_name
    FROM mainspring.bell AS b
    WHERE b.group_name = ANY ($1::text[]) AND b.ear = $2
    ORDER BY b.group_name
    FOR UPDATE SKIP LOCKED
)
INSERT INTO mainspring.bell (group_name, ear, armed_until)
SELECT g.name, $2, coalesce($4::timestamptz, statement_timestamp()) + $3::interval
FROM unnest($1::text[]) AS g (name)
WHERE g.name IN (SELECT free.group_name FROM free)
   OR NOT EXISTS (SELECT FROM mainspring.bell AS b WHERE b.group_name = g.name AND b.ear = $2)
ORDER BY g.name
ON CONFLICT (group_name, ear) DO UPDATE SET armed_until = excluded.armed_until
