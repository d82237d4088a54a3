-- $1 schedules, $2 whether only those that wait. The messages of which deliveries are unfinished, oldest first.
SELECT d.message_id
FROM mainspring.delivery AS d
WHERE d.schedule = ANY ($1::text[])
  AND (NOT $2::boolean OR d.due_at = '9999-12-31 00:00:00+00')
GROUP BY d.message_id
ORDER BY min(d.seq)
LIMIT 1000
