-- $1 groups; $2 worker, $3 its start; $4 after how long a silent one counts no more, $5 now. Answers (group, pattern): what
-- others have declared.
WITH clock AS MATERIALIZED (
    SELECT coalesce($5::timestamptz, statement_timestamp()) - $4::interval AS cutoff
),
-- Only a process that was there all the time can tell that another was silent: after an outage all were.
judge AS MATERIALIZED (
    SELECT EXISTS (
        SELECT FROM mainspring.declaration AS d, clock
        WHERE d.worker = $2 AND d.start_id = $3 AND $3 <> '' AND d.since <= clock.cutoff
    ) AS stands
)
SELECT DISTINCT declared.group_name, declared.pattern
FROM clock
CROSS JOIN judge
CROSS JOIN mainspring.declaration AS d
CROSS JOIN LATERAL unnest(d.groups, d.patterns) AS declared (group_name, pattern)
WHERE declared.group_name = ANY ($1::text[])
  AND (d.worker <> $2 OR d.start_id <> $3)
  AND (NOT judge.stands OR d.start_id = '' OR d.seen_at >= clock.cutoff)
