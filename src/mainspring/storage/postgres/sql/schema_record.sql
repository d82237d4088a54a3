-- $1 number, $2 name, $3 checksum, $4 breaking.
INSERT INTO mainspring.migration (number, name, checksum, breaking, applied_at)
VALUES ($1, $2, $3, $4, statement_timestamp())
