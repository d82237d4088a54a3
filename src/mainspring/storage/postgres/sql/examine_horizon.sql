-- $1 how many transactions back. Who keeps rows for queries on another server: a slot, or a standby without one that
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
