-- $1 group, $2 keys (the empty one is the whole group), $3 now. What still counts of what was claimed.
-- Compared as rows: nothing but the index by key has this order, whatever the planner believes.
SELECT s.key, s.until, s.claims
FROM unnest($2::text[]) AS asked (key)
CROSS JOIN LATERAL (
    SELECT *
    FROM mainspring.spent
    WHERE (group_name, key, until) > ($1, asked.key, coalesce($3::timestamptz, statement_timestamp()))
      AND (group_name, key) <= ($1, asked.key)
    ORDER BY group_name, key, until
    OFFSET 0
) AS s
