-- What brings the content of one database to another.

-- name: transfer_begin
-- $1 epoch of the mover, which the fence lets pass, $2 lock timeout. Texts of rows are alike in every database, and a mover that
-- stands still holds no lock for long.
SELECT
    set_config('fence.epoch', $1::text, true),
    set_config('lock_timeout', $2::text, true),
    set_config('idle_in_transaction_session_timeout', '10s', true),
    set_config('TimeZone', 'UTC', true),
    set_config('DateStyle', 'ISO', true),
    set_config('bytea_output', 'hex', true)

-- name: transfer_held
-- $1 epoch. A later mover waits for this transaction, and passes no more after it.
SELECT epoch FROM mainspring.fence WHERE epoch = $1 FOR SHARE

-- name: transfer_hurry
-- $1 how long a statement may take.
SELECT set_config('statement_timeout', $1::text, true)

-- name: transfer_marks
-- $1 schema. The last number of each identity column; null: none was given out.
SELECT
    c.relname || '.' || a.attname,
    pg_sequence_last_value(pg_get_serial_sequence(format('%I.%I', n.nspname, c.relname), a.attname)::regclass)::bigint
FROM pg_attribute AS a
INNER JOIN pg_class AS c ON c.oid = a.attrelid
INNER JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = $1 AND c.relkind = 'r' AND a.attidentity <> ''
ORDER BY 1

-- name: transfer_next_epoch
-- The number of the server's timeline stands before it, which the other server may not have reached.
SELECT mainspring.next_lease_epoch()

-- name: transfer_set_epoch
SELECT setval('mainspring.lease_epoch', greatest($1::bigint, nextval('mainspring.lease_epoch')))

-- name: transfer_set_mark
-- $1 table, as it is written, $2 column, $3 the last number.
SELECT setval(pg_get_serial_sequence($1::text, $2::text)::regclass, $3::bigint)

-- name: transfer_columns
-- $1 schema, $2 table. The columns that can be written, their types, and their places in the key.
SELECT quote_ident(a.attname), format_type(a.atttypid, a.atttypmod), array_position(i.indkey::smallint[], a.attnum)
FROM pg_attribute AS a
INNER JOIN pg_class AS c ON c.oid = a.attrelid
INNER JOIN pg_namespace AS n ON n.oid = c.relnamespace
LEFT JOIN pg_index AS i ON i.indrelid = c.oid AND i.indisprimary
WHERE n.nspname = $1 AND c.relname = $2 AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
ORDER BY a.attnum

-- name: transfer_triggers
-- $1 schema. The tables that have had a fence.
SELECT c.relname::text
FROM pg_trigger AS t
INNER JOIN pg_class AS c ON c.oid = t.tgrelid
INNER JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = $1 AND t.tgname = 'fence'

-- name: transfer_whereabouts
SELECT current_database() || ' ' || pg_postmaster_start_time()::text
