SELECT named.relname, it.indisvalid AND it.indisready
FROM pg_index AS it
INNER JOIN pg_class AS named ON named.oid = it.indexrelid
WHERE named.relnamespace = to_regnamespace($1)
