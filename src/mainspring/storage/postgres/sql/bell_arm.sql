-- $1 groups, $2 whose ear, $3 for how long, $4 now. A row per ear: one worker that wakes must not silence the bell
-- of another that sleeps on.
INSERT INTO mainspring.bell (group_name, ear, armed_until)
SELECT g.name, $2, coalesce($4::timestamptz, statement_timestamp()) + $3::interval
FROM unnest($1::text[]) AS g (name)
ORDER BY g.name
ON CONFLICT (group_name, ear) DO UPDATE SET armed_until = excluded.armed_until
