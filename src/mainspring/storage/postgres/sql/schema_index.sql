-- $1 schema, $2 index. Whether it can be used, and its table; no row: it is not there.
SELECT i.indisvalid AND i.indisready, i.indrelid::regclass::text
FROM pg_index AS i
INNER JOIN pg_class AS c ON c.oid = i.indexrelid
INNER JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = $1 AND c.relname = $2
