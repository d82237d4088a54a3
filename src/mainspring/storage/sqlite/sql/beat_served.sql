-- Once a minute is enough to say that a group is served.
UPDATE mainspring_groups
SET served_at = ?2
WHERE name IN (SELECT value FROM json_each(?1)) AND (served_at IS NULL OR served_at < ?2 - 60000000)
