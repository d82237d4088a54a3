-- ?1 name, ?2 now. Answers (epoch, holder, acquired_at) when somebody holds it.
SELECT epoch, holder, acquired_at
FROM mainspring_lease
WHERE name = ?1 AND holder IS NOT NULL AND expires_at > ?2
