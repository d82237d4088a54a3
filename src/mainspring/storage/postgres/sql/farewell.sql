-- $1 workers, $2 their start, where it is known. What they have done stays counted, under no worker's name; what they have
-- declared counts no more. A worker whose row is locked is left on the roster, and forgotten later; the counts are shared by all
-- who leave, and waited for no longer than a second.
WITH leaving AS MATERIALIZED (
    SELECT w.name
    FROM mainspring.worker AS w
    WHERE w.name = ANY ($1::text[]) AND set_config('lock_timeout', '1000', true) IS NOT NULL
    ORDER BY w.name
    FOR UPDATE SKIP LOCKED
),
gone AS (
    DELETE FROM mainspring.worker WHERE name = ANY (ARRAY(SELECT leaving.name FROM leaving))
),
withdrawn AS (
    DELETE FROM mainspring.declaration WHERE worker = ANY ($1::text[]) AND start_id = $2 AND start_id <> ''
),
done AS (
    DELETE FROM mainspring.tally
    WHERE worker = ANY ($1::text[])
      AND worker <> ALL (
        ARRAY(SELECT w.name FROM mainspring.worker AS w WHERE w.name = ANY ($1) AND w.name NOT IN (SELECT leaving.name FROM leaving))
    )
    RETURNING group_name, handled, failed
)
INSERT INTO mainspring.tally AS t (worker, group_name, handled, failed)
SELECT '', done.group_name, sum(done.handled), sum(done.failed)
FROM done
GROUP BY done.group_name
ORDER BY done.group_name
ON CONFLICT (worker, group_name) DO UPDATE
SET handled = t.handled + excluded.handled, failed = t.failed + excluded.failed
