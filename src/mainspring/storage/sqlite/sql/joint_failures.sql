-- Members that were buried or cancelled since ?1, by the id of their join as text. Each of them has left a run, whatever is
-- kept of successes.
SELECT json_extract(m.headers, '$."mainspring-join-member"'), count(DISTINCT r.message_id)
FROM mainspring_run AS r INDEXED BY mainspring_run_age
CROSS JOIN mainspring_message AS m ON m.id = r.message_id
WHERE r.status IN ('dead', 'cancelled') AND r.finished_at >= ?1 AND m.headers LIKE '%"mainspring-join-member"%'
GROUP BY 1
