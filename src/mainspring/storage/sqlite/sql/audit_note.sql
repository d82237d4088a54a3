INSERT INTO mainspring_audit (at, by_whom, action, subject, detail) VALUES (?1, ?2, ?3, ?4, ?5)
RETURNING id
