-- The runs of what is not over yet stay: a retry and a dead letter keep all their errors.
SELECT r.id, r.message_id
FROM mainspring_run AS r INDEXED BY mainspring_run_age
WHERE r.status = ?1
  AND r.finished_at < ?2
  AND NOT EXISTS (
        SELECT 1 FROM mainspring_delivery AS d WHERE d.message_id = r.message_id AND d.group_name = r.group_name
    )
  AND NOT EXISTS (
        SELECT 1 FROM mainspring_dead AS d WHERE d.message_id = r.message_id AND d.group_name = r.group_name
    )
ORDER BY r.finished_at, r.id
LIMIT ?3
