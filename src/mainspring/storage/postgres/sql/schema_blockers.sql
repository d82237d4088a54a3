-- $1 schema. The sessions that hold locks on its tables, the oldest transaction first: who has had one for long blocks
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
