-- $1 id, $2 how many members, $3 what follows when all are done, $4 what follows otherwise, $5 now.
INSERT INTO mainspring.joint (id, opened_at, pending, on_done, on_failed)
VALUES ($1, coalesce($5::timestamptz, statement_timestamp()), $2, $3, $4)
