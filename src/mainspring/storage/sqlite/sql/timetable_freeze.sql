INSERT INTO mainspring_freeze (app, at, by_whom, reason)
VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (app) DO UPDATE SET at = excluded.at, by_whom = excluded.by_whom, reason = excluded.reason
