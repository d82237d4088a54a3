UPDATE mainspring_groups SET paused_at = ?2, paused_by = ?3, pause_reason = ?4 WHERE name = ?1 RETURNING 1
