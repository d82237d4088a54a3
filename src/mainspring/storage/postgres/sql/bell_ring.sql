-- $1 channel, $2 what is said.
SELECT pg_notify($1, $2)
