-- $1 groups; $2 worker, $3 its start; $4 groups, $5 patterns: what it declares; $6 how often that is written down, $7 now.
-- Answers (name, app, handler, options, version, patterns, whether it was written down lately) of the groups that are known.
WITH seen AS MATERIALIZED (
    SELECT EXISTS (
        SELECT FROM mainspring.declaration AS d
        WHERE d.worker = $2
          AND d.start_id = $3
          AND d.groups = $4::text[]
          AND d.patterns = $5::text[]
          AND d.seen_at > coalesce($7::timestamptz, statement_timestamp()) - $6::interval
    ) AS lately
)
SELECT
    g.name, g.app, g.handler, g.options, g.version,
    ARRAY(SELECT s.pattern FROM mainspring.subscription AS s WHERE s.group_name = g.name ORDER BY s.pattern),
    seen.lately
FROM mainspring.groups AS g
CROSS JOIN seen
WHERE g.name = ANY ($1::text[])
