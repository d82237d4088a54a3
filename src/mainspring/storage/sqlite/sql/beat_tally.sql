INSERT INTO mainspring_tally (worker, group_name, handled, failed)
VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (worker, group_name) DO UPDATE
SET handled = handled + excluded.handled, failed = failed + excluded.failed
