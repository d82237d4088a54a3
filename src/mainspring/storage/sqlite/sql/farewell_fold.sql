INSERT INTO mainspring_tally (worker, group_name, handled, failed)
SELECT '', group_name, handled, failed FROM mainspring_tally WHERE worker = ?1
ON CONFLICT (worker, group_name) DO UPDATE
SET handled = handled + excluded.handled, failed = failed + excluded.failed
