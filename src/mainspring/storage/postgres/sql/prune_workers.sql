-- $1 how long a silent worker is kept, $2 limit, $3 now. Answers their names; farewell.sql removes them.
SELECT name
FROM mainspring.worker
WHERE beat_at < coalesce($3::timestamptz, statement_timestamp()) - $1::interval
ORDER BY beat_at
LIMIT $2
