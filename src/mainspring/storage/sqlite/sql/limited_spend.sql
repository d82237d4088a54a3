INSERT INTO mainspring_spent (group_name, key, until, claims)
VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (group_name, key, until) DO UPDATE SET claims = claims + excluded.claims
