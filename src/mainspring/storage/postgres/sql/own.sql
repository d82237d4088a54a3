-- $1 message ids. Those that this transaction has inserted, in one of its savepoints or in none: what can be seen of a
-- transaction that goes on is one's own. Rows know the lower half of a number; a savepoint's is above its transaction's.
SELECT m.id
FROM unnest($1::uuid[]) AS u (id)
CROSS JOIN LATERAL (
    SELECT id, xmin::text::bigint - (txid_current() & 4294967295) AS later
    FROM mainspring.message
    WHERE id = u.id
    OFFSET 0
) AS m
CROSS JOIN LATERAL (SELECT CASE WHEN m.later < -2147483648 THEN m.later + 4294967296 ELSE m.later END) AS s (later)
WHERE CASE WHEN s.later BETWEEN 0 AND 2147483647 THEN txid_status(txid_current() + s.later) = 'in progress' ELSE false END
