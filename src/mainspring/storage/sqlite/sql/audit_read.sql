SELECT id, at, by_whom, action, subject, detail
FROM mainspring_audit
WHERE ?1 IS NULL OR id < ?1
ORDER BY id DESC
LIMIT ?2
