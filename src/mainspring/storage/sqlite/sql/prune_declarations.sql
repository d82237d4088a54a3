DELETE FROM mainspring_declaration
WHERE (worker, start_id) IN (SELECT worker, start_id FROM mainspring_declaration WHERE seen_at < ?1 LIMIT ?2)
