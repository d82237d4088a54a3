-- $1 names, $2 by whom, $3 action, $4 detail, $5 now. Tells the ids of the lines.
INSERT INTO mainspring.audit (at, by_whom, action, subject, detail)
SELECT coalesce($5::timestamptz, statement_timestamp()), $2, $3, s.name, $4
FROM unnest($1::text[]) AS s (name)
RETURNING id
