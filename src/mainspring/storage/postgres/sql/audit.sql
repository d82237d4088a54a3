-- $1 before: may be null; $2 limit. Columns in the order of model.views.AuditView, newest first.
SELECT id, at, by_whom, action, subject, detail
FROM mainspring.audit
WHERE ($1::bigint IS NULL OR id < $1)
ORDER BY id DESC
LIMIT $2
