SELECT
    clock_timestamp(),
    pg_backend_pid(),
    pg_is_in_recovery(),
    current_setting('autovacuum')::boolean AND current_setting('track_counts')::boolean,
    quote_ident(current_user),
    quote_ident(current_database())
