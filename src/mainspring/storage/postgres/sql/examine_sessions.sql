-- Who keeps what is settled from being removed: those in this database that have a snapshot, or a number of their own.
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
