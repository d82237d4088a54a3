-- $1 schema, $2 functions that our statements call. Answers what the role lacks, as a right and what it is on; all of it
-- is read from the catalogs, which every role may read. The sequences of identity columns need no right of their own.
SELECT 'USAGE', 'SCHEMA ' || quote_ident(n.nspname), quote_ident(current_user)
FROM pg_namespace AS n
WHERE n.nspname = $1 AND NOT has_schema_privilege(n.oid, 'USAGE')
UNION ALL
SELECT string_agg(needed.privilege, ', ' ORDER BY needed.place), c.oid::regclass::text, quote_ident(current_user)
FROM pg_namespace AS n
INNER JOIN pg_class AS c ON c.relnamespace = n.oid AND c.relkind IN ('r', 'p')
-- Migrations are only read by who may not migrate, and settings are the owner's.
CROSS JOIN LATERAL (
    VALUES (1, 'SELECT', true), (2, 'INSERT', false), (3, 'UPDATE', false), (4, 'DELETE', false)
) AS needed (place, privilege, always)
WHERE n.nspname = $1
  AND (needed.always OR c.relname NOT IN ('migration', 'setting'))
  AND NOT has_table_privilege(c.oid, needed.privilege)
GROUP BY c.oid
UNION ALL
SELECT 'USAGE', 'SEQUENCE ' || c.oid::regclass::text, quote_ident(current_user)
FROM pg_namespace AS n
INNER JOIN pg_class AS c ON c.relnamespace = n.oid AND c.relkind = 'S'
WHERE n.nspname = $1
  -- A CASE, since conditions have no order and this one refuses what is no sequence.
  AND CASE WHEN c.relkind = 'S' THEN NOT has_sequence_privilege(c.oid, 'USAGE, UPDATE') END
  AND NOT EXISTS (SELECT FROM pg_depend AS d WHERE d.objid = c.oid AND d.deptype = 'i')
UNION ALL
SELECT 'EXECUTE', 'FUNCTION ' || p.oid::regprocedure::text, quote_ident(current_user)
FROM pg_namespace AS n
INNER JOIN pg_proc AS p ON p.pronamespace = n.oid AND p.proname = ANY ($2::text[])
WHERE n.nspname = $1 AND NOT has_function_privilege(p.oid, 'EXECUTE')
ORDER BY 2
