-- ?1 the only name, ?2 after which name: each may be null; ?3 limit, ?4 now. Columns in the order of model.lease.LeaseView.
SELECT
    name,
    CASE WHEN holder IS NULL THEN 'free' WHEN expires_at > ?4 THEN 'held' ELSE 'expired' END,
    holder, epoch, acquired_at, renewed_at, expires_at
FROM mainspring_lease
-- No text is greater than a blob.
WHERE name BETWEEN coalesce(?1, ?2, '') AND coalesce(?1, x'') AND (?2 IS NULL OR name > ?2)
ORDER BY name
LIMIT ?3
