-- An UPDATE takes the write lock even when it changes nothing, and waits for it as busy_timeout says. A read
-- before it would not wait: SQLite refuses to raise a read that has been overtaken.
UPDATE mainspring_clock SET at = ?1 WHERE at < ?1 - 100000
