DELETE FROM mainspring_lease
WHERE name IN (SELECT name FROM mainspring_lease WHERE expires_at < ?1 ORDER BY expires_at, name LIMIT ?2)
