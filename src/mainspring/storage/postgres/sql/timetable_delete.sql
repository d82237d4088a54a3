-- $1 names.
DELETE FROM mainspring.schedule WHERE name = ANY ($1::text[])
