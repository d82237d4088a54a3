-- $1 groups, $2 for how long, $3 now.
INSERT INTO mainspring.bell (group_name, armed_until)
SELECT g.name, coalesce($3::timestamptz, statement_timestamp()) + $2::interval
FROM unnest($1::text[]) AS g (name)
ORDER BY g.name
ON CONFLICT (group_name) DO UPDATE SET armed_until = excluded.armed_until
