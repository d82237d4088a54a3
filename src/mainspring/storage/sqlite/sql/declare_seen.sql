-- ?1 worker, ?2 its start, ?3 what it declares, ?4 who was seen before was away in between, ?5 now.
INSERT INTO mainspring_declaration AS d (worker, start_id, declared, since, seen_at)
VALUES (?1, ?2, ?3, ?5, ?5)
ON CONFLICT (worker, start_id) DO UPDATE
SET since = CASE WHEN d.seen_at < ?4 THEN ?5 ELSE d.since END, seen_at = ?5, declared = ?3
