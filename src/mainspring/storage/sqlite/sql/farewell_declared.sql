DELETE FROM mainspring_declaration WHERE worker = ?1 AND start_id = ?2 AND start_id <> ''
