-- ?1 groups; ?2 worker, ?3 its start; ?4 who was seen before counts no more. Rows of (group, pattern): what others have declared.
-- Only a process that was there all the time can tell that another was silent: after an outage all were.
SELECT DISTINCT json_extract(declared.value, '$[0]'), json_extract(declared.value, '$[1]')
FROM mainspring_declaration AS d, json_each(d.declared) AS declared
WHERE json_extract(declared.value, '$[0]') IN (SELECT value FROM json_each(?1))
  AND (d.worker <> ?2 OR d.start_id <> ?3)
  AND (
        d.start_id = ''
        OR d.seen_at >= ?4
        OR NOT EXISTS (
            SELECT 1 FROM mainspring_declaration AS judge
            WHERE judge.worker = ?2 AND judge.start_id = ?3 AND ?3 <> '' AND judge.since <= ?4
        )
    )
