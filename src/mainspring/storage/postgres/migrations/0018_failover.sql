-- The next epoch of a lease. What was promised by a primary and never reached the standby that takes over would be handed out
-- again by the sequence. So the number of the timeline stands before it, which PostgreSQL counts with every promotion and every
-- recovery to a point in time. A server that does not tell its timeline has the sequence alone.
CREATE FUNCTION mainspring.next_lease_epoch() RETURNS bigint
LANGUAGE plpgsql AS $function$
DECLARE
    timeline bigint := 1;
BEGIN
    BEGIN
        -- The first eight digits of the name of a segment.
        timeline := ('x' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8))::bit(32)::bigint;
    EXCEPTION WHEN others THEN
        NULL;
    END;
    RETURN ((timeline - 1) << 32) + nextval('mainspring.lease_epoch');
END
$function$;
