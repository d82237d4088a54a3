-- ?1 seqs, ?2 of what (live, dead, parked, run). How many bytes the payload of each has, newest first: that is known without
-- reading it.
WITH s(seq) AS MATERIALIZED (SELECT value FROM json_each(?1)),
c(seq, message_id) AS (
    SELECT s.seq, d.message_id FROM s CROSS JOIN mainspring_delivery AS d ON d.seq = s.seq WHERE ?2 = 'live'
    UNION ALL
    SELECT s.seq, d.message_id FROM s CROSS JOIN mainspring_dead AS d ON d.seq = s.seq WHERE ?2 = 'dead'
    UNION ALL
    SELECT s.seq, p.message_id FROM s CROSS JOIN mainspring_parked AS p ON p.seq = s.seq WHERE ?2 = 'parked'
    UNION ALL
    SELECT s.seq, r.message_id FROM s CROSS JOIN mainspring_run AS r ON r.id = s.seq WHERE ?2 = 'run'
)
SELECT c.seq, length(m.payload) FROM c CROSS JOIN mainspring_message AS m ON m.id = c.message_id ORDER BY c.seq DESC
