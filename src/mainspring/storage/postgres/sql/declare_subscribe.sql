-- $1 patterns, $2 groups, $3 wild, $4 matchers.
INSERT INTO mainspring.subscription (pattern, group_name, wild, matcher)
SELECT w.pattern, w.group_name, w.wild, w.matcher
FROM unnest($1::text[], $2::text[], $3::boolean[], $4::text[]) AS w (pattern, group_name, wild, matcher)
ORDER BY w.pattern, w.group_name
ON CONFLICT (pattern, group_name) DO NOTHING
