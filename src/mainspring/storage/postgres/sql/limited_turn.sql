-- $1 group. Nobody else claims under its limits from here until our transaction ends: what is counted next stays true
-- (invariant 6). A process that is stopped in between must not stop the others: the server ends its session for it. Nor must
-- a session that has locked the row: a turn lasts milliseconds, and other groups come after it on this connection.
INSERT INTO mainspring.limits AS l (group_name, turn)
SELECT $1, 1
WHERE set_config('lock_timeout', '1000', true) IS NOT NULL
ON CONFLICT (group_name) DO UPDATE SET turn = l.turn + 1
RETURNING set_config('idle_in_transaction_session_timeout', '5000', true)
