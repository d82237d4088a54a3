-- Tables, rights, clocks, and what doctor examines.

-- name: examine_hidden
SELECT count(*)
FROM pg_stat_activity
WHERE datname = current_database() AND query = '<insufficient privilege>'

-- name: examine_horizon
-- $1 how many transactions back. What keeps rows for queries on another server: a slot, or a standby without one that
-- says what its queries still see. Of a slot for logical replication only the system's own catalogs are kept.
SELECT found.what, found.name, found.pid, found.behind
FROM (
    SELECT
        CASE WHEN s.active THEN 'slot in use' ELSE 'slot' END AS what,
        s.slot_name::text AS name,
        coalesce(s.active_pid, 0) AS pid,
        age(s.xmin)::bigint AS behind
    FROM pg_replication_slots AS s
    WHERE s.xmin IS NOT NULL
    UNION ALL
    SELECT 'catalogs', s.slot_name::text, coalesce(s.active_pid, 0), age(s.catalog_xmin)::bigint
    FROM pg_replication_slots AS s
    WHERE s.xmin IS NULL AND s.catalog_xmin IS NOT NULL AND s.database = current_database()
    UNION ALL
    SELECT 'standby', coalesce(r.application_name, ''), r.pid, age(r.backend_xmin)::bigint
    FROM pg_stat_replication AS r
    WHERE r.backend_xmin IS NOT NULL
) AS found
WHERE found.behind >= $1::bigint
ORDER BY found.behind DESC
LIMIT 5

-- name: examine_indexes
SELECT named.relname, it.indisvalid AND it.indisready
FROM pg_index AS it
INNER JOIN pg_class AS named ON named.oid = it.indexrelid
WHERE named.relnamespace = to_regnamespace($1)

-- name: examine_prepared
-- A transaction that was prepared for a second phase holds on without any session.
SELECT gid, owner, extract(epoch FROM clock_timestamp() - prepared)::float8
FROM pg_prepared_xacts
WHERE database = current_database() AND prepared < clock_timestamp() - $1::interval
ORDER BY prepared
LIMIT 5

-- name: examine_server
SELECT
    clock_timestamp(),
    pg_backend_pid(),
    pg_is_in_recovery(),
    current_setting('autovacuum')::boolean AND current_setting('track_counts')::boolean,
    quote_ident(current_user),
    quote_ident(current_database()),
    -- Whether a subscription of a logical replication fills our tables.
    EXISTS (
        SELECT FROM pg_subscription_rel AS filled
        INNER JOIN pg_class AS named ON named.oid = filled.srrelid
        WHERE named.relnamespace = to_regnamespace($1)
    )

-- name: examine_sessions
-- What keeps settled rows from being removed: sessions in this database that have a snapshot, or a number of their own.
-- What others have asked is theirs, so it is not read. Of the sessions of other roles one may see nothing but that
-- they are there.
SELECT
    pid,
    coalesce(application_name, ''),
    coalesce(usename, ''),
    coalesce(state, ''),
    extract(epoch FROM clock_timestamp() - xact_start)::float8,
    extract(epoch FROM clock_timestamp() - query_start)::float8,
    coalesce(quote_ident(usename), '')
FROM pg_stat_activity
WHERE
    datname = current_database()
    AND pid <> pg_backend_pid()
    AND backend_type <> 'autovacuum worker'
    AND (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL)
    AND xact_start < clock_timestamp() - $1::interval
ORDER BY xact_start
LIMIT 5

-- name: examine_tables
-- Each table with whether it is vacuumed, its dead rows, and how many of them autovacuum waits for.
SELECT
    tables.relname,
    coalesce(options.enabled, true),
    coalesce(counted.n_dead_tup, 0),
    coalesce(options.threshold, current_setting('autovacuum_vacuum_threshold')::float8)
    + coalesce(options.scale, current_setting('autovacuum_vacuum_scale_factor')::float8)
    * greatest(tables.reltuples, 0)::float8,
    extract(epoch FROM clock_timestamp() - greatest(counted.last_autovacuum, counted.last_vacuum))::float8
FROM pg_class AS tables
LEFT JOIN pg_stat_user_tables AS counted ON counted.relid = tables.oid
CROSS JOIN LATERAL (
    SELECT
        bool_and(option_value::boolean) FILTER (WHERE option_name = 'autovacuum_enabled') AS enabled,
        max(option_value::float8) FILTER (WHERE option_name = 'autovacuum_vacuum_threshold') AS threshold,
        max(option_value::float8) FILTER (WHERE option_name = 'autovacuum_vacuum_scale_factor') AS scale
    FROM pg_options_to_table(tables.reloptions)
) AS options
WHERE tables.relnamespace = to_regnamespace($1) AND tables.relkind = 'r'
ORDER BY tables.relname

-- name: rights_grantees
-- $1 schema. The roles that may use it and do not own it, whose rights a migration keeps true.
SELECT DISTINCT r.rolname::text
FROM pg_namespace AS n
CROSS JOIN LATERAL aclexplode(n.nspacl) AS acl
INNER JOIN pg_roles AS r ON r.oid = acl.grantee
WHERE n.nspname = $1 AND acl.privilege_type = 'USAGE' AND r.oid <> n.nspowner AND NOT r.rolsuper
ORDER BY 1

-- name: rights_lacking
-- $1 schema; $2 roles, $3 kinds of objects, $4 their names, $5 privileges, $6 columns: the rights that are wanted; $7 whose
-- [the current role's]. Returns those that it lacks on objects that are there, and its name; all of it is read from the
-- catalogs, which every role may read.
SELECT wanted.role, wanted.kind, wanted.name, wanted.privilege, wanted.column_name, r.rolname::text
FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[])
    WITH ORDINALITY AS wanted (role, kind, name, privilege, column_name, place)
INNER JOIN pg_namespace AS n ON n.nspname = $1
INNER JOIN pg_roles AS r ON r.rolname = coalesce($7::text, current_user)
LEFT JOIN pg_class AS c ON c.relnamespace = n.oid AND c.relname = wanted.name
LEFT JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attname = wanted.column_name
WHERE CASE
    WHEN wanted.kind = 'schema' THEN NOT has_schema_privilege(r.oid, n.oid, wanted.privilege)
    WHEN wanted.kind = 'function' THEN EXISTS (
        SELECT FROM pg_proc AS p WHERE p.pronamespace = n.oid AND NOT has_function_privilege(r.oid, p.oid, wanted.privilege)
    )
    WHEN c.oid IS NULL THEN false
    WHEN wanted.kind = 'sequence' THEN NOT has_sequence_privilege(r.oid, c.oid, wanted.privilege)
    WHEN wanted.column_name IS NULL THEN NOT has_table_privilege(r.oid, c.oid, wanted.privilege)
    ELSE a.attnum IS NOT NULL AND NOT has_column_privilege(r.oid, c.oid, a.attnum, wanted.privilege)
END
ORDER BY wanted.place

-- name: schema_blockers
-- $1 schema. The sessions that hold locks on its tables, the oldest transaction first: an old one blocks
-- a migration of the tables. Of sessions of other roles only the number and the name may be known.
SELECT
    a.pid, a.application_name, a.usename, a.state, extract(epoch FROM clock_timestamp() - min(a.xact_start))::float8,
    extract(epoch FROM clock_timestamp() - min(a.query_start))::float8
FROM pg_locks AS l
INNER JOIN pg_class AS c ON c.oid = l.relation
INNER JOIN pg_namespace AS n ON n.oid = c.relnamespace
INNER JOIN pg_stat_activity AS a ON a.pid = l.pid
WHERE n.nspname = $1
  AND l.granted
  AND l.database = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database())
  AND l.pid <> pg_backend_pid()
GROUP BY a.pid, a.application_name, a.usename, a.state
ORDER BY min(a.xact_start) NULLS LAST
LIMIT 3

-- name: schema_index
-- $1 schema, $2 index. Whether it can be used, and its table; no row: it is not there.
SELECT i.indisvalid AND i.indisready, i.indrelid::regclass::text
FROM pg_index AS i
INNER JOIN pg_class AS c ON c.oid = i.indexrelid
INNER JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = $1 AND c.relname = $2

-- name: schema_objects
-- $1 schema. What is in it, by kind and name, and how many share the name: functions may differ in their parameters.
SELECT
    CASE c.relkind WHEN 'S' THEN 'sequence' WHEN 'v' THEN 'view' ELSE 'table' END, c.relname::text, 1::bigint
FROM pg_class AS c
INNER JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = $1 AND c.relkind IN ('r', 'p', 'v', 'S')
UNION ALL
SELECT 'function', p.proname::text, count(*)
FROM pg_proc AS p
INNER JOIN pg_namespace AS n ON n.oid = p.pronamespace
WHERE n.nspname = $1
GROUP BY p.proname

-- name: schema_record
-- $1 number, $2 name, $3 checksum, $4 breaking.
INSERT INTO mainspring.migration (number, name, checksum, breaking, applied_at)
VALUES ($1, $2, $3, $4, statement_timestamp())

-- name: schema_table
CREATE TABLE IF NOT EXISTS mainspring.migration (
    number integer PRIMARY KEY,
    name text NOT NULL,
    checksum text NOT NULL,
    breaking boolean NOT NULL,
    applied_at timestamptz NOT NULL
)
