SELECT key, until, claims
FROM mainspring_spent
WHERE group_name = ?1 AND key IN (SELECT value FROM json_each(?2)) AND until > ?3
