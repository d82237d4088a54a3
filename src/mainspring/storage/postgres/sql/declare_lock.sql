-- $1 groups. Keeps out every process that declares the same groups until the transaction ends.
SELECT FROM mainspring.groups AS g WHERE g.name = ANY ($1::text[]) ORDER BY g.name FOR UPDATE
