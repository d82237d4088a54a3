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
