DELETE FROM mainspring_audit
WHERE id IN (SELECT id FROM mainspring_audit WHERE at < ?1 ORDER BY at, id LIMIT ?2)
