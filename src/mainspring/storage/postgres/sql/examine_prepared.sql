-- A transaction that was prepared for a second phase holds on without any session.
SELECT gid, owner, extract(epoch FROM clock_timestamp() - prepared)::float8
FROM pg_prepared_xacts
WHERE database = current_database() AND prepared < clock_timestamp() - $1::interval
ORDER BY prepared
LIMIT 5
