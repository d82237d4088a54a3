-- $1 app, $2 by whom, $3 reason, $4 now.
INSERT INTO mainspring.freeze (app, at, by_whom, reason)
VALUES ($1, coalesce($4::timestamptz, statement_timestamp()), $2, $3)
ON CONFLICT (app) DO UPDATE SET at = excluded.at, by_whom = excluded.by_whom, reason = excluded.reason
