-- $1 seqs, $2 of what (live, dead, parked, run). How many bytes the payload of each has, newest first: that is known without
-- reading it.
SELECT s.seq, octet_length(m.payload)
FROM (SELECT u.seq FROM unnest($1::bigint[]) AS u (seq) ORDER BY u.seq DESC OFFSET 0) AS s
CROSS JOIN LATERAL (
    SELECT d.message_id FROM mainspring.delivery AS d WHERE $2::text = 'live' AND d.seq = s.seq
    UNION ALL
    SELECT d.message_id FROM mainspring.dead AS d WHERE $2::text = 'dead' AND d.seq = s.seq
    UNION ALL
    SELECT p.message_id FROM mainspring.parked AS p WHERE $2::text = 'parked' AND p.seq = s.seq
    UNION ALL
    SELECT r.message_id FROM mainspring.run AS r WHERE $2::text = 'run' AND r.id = s.seq
) AS c
CROSS JOIN LATERAL (SELECT payload FROM mainspring.message WHERE id = c.message_id OFFSET 0) AS m
ORDER BY s.seq DESC
