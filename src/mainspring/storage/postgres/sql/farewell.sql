-- $1 workers. What they have done stays counted, under nobody's name.
WITH gone AS (
    DELETE FROM mainspring.worker WHERE name = ANY ($1::text[])
),
done AS (
    DELETE FROM mainspring.tally WHERE worker = ANY ($1::text[]) RETURNING group_name, handled, failed
)
INSERT INTO mainspring.tally AS t (worker, group_name, handled, failed)
SELECT '', done.group_name, sum(done.handled), sum(done.failed)
FROM done
GROUP BY done.group_name
ORDER BY done.group_name
ON CONFLICT (worker, group_name) DO UPDATE
SET handled = t.handled + excluded.handled, failed = t.failed + excluded.failed
