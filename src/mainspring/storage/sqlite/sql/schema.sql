-- Tables, rights, clocks, and what doctor examines.

-- name: changes
SELECT changes()

-- name: clock_mark
-- An UPDATE takes the write lock even when it changes nothing, and waits for it as busy_timeout says. A read
-- before it would not wait: SQLite refuses to raise a read that has been overtaken.
UPDATE mainspring_clock SET at = ?1 WHERE at < ?1 - 100000

-- name: clock_read
SELECT at FROM mainspring_clock

-- name: examine_file
SELECT file FROM pragma_database_list WHERE name = 'main'

-- name: examine_indexes
SELECT name FROM sqlite_schema WHERE type = 'index'

-- name: schema_objects
SELECT name FROM sqlite_schema WHERE type = 'table'

-- name: schema_record
INSERT INTO mainspring_migration (number, name, checksum, breaking, applied_at) VALUES (?1, ?2, ?3, ?4, ?5)

-- name: schema_there
SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'mainspring_migration'
