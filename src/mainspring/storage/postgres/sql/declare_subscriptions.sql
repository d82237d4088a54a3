-- $1 groups; $2 patterns, $3 groups, $4 wild, $5 matchers: all the subscriptions they are to have.
WITH wanted AS MATERIALIZED (
    SELECT w.pattern, w.group_name, w.wild, w.matcher
    FROM unnest($2::text[], $3::text[], $4::boolean[], $5::text[]) AS w (pattern, group_name, wild, matcher)
),
dropped AS (
    DELETE FROM mainspring.subscription AS s
    WHERE s.group_name = ANY ($1::text[])
      AND NOT EXISTS (SELECT FROM wanted WHERE wanted.pattern = s.pattern AND wanted.group_name = s.group_name)
)
INSERT INTO mainspring.subscription (pattern, group_name, wild, matcher)
SELECT wanted.pattern, wanted.group_name, wanted.wild, wanted.matcher
FROM wanted
ORDER BY wanted.pattern, wanted.group_name
ON CONFLICT (pattern, group_name) DO NOTHING
