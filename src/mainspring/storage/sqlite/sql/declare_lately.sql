-- ?1 worker, ?2 its start, ?3 what it declares, ?4 since when. A row if that was written down lately.
SELECT 1 FROM mainspring_declaration WHERE worker = ?1 AND start_id = ?2 AND declared = ?3 AND seen_at > ?4
