UPDATE mainspring_delivery SET due_at = ?2 WHERE seq IN (SELECT value FROM json_each(?1))
