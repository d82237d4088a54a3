-- $1 groups, $2 patterns.
DELETE FROM mainspring.subscription AS s
USING unnest($1::text[], $2::text[]) AS w (group_name, pattern)
WHERE s.group_name = w.group_name AND s.pattern = w.pattern
