-- $1 groups. Answers (name, app), and keeps out whoever declares the same groups until we are through.
SELECT g.name, g.app
FROM mainspring.groups AS g
WHERE g.name = ANY ($1::text[])
ORDER BY g.name
FOR UPDATE
