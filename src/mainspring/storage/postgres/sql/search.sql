-- Searches of deliveries and causes of death.

-- part: SHARE()
-- How many batches are read of each message that was handled, from its publishing on.
greatest(100, 100000 / (SELECT count(*) FROM messages))

-- part: FEW()
-- Of what ($3: live, dead, parked, run, handled) the seqs of these messages, up to one more than $1.
few AS MATERIALIZED (
    SELECT c.seq, messages.id
    FROM messages
    CROSS JOIN LATERAL (
        SELECT d.seq FROM mainspring.delivery AS d WHERE $3::text = 'live' AND d.message_id = messages.id
        UNION ALL
        SELECT d.seq FROM mainspring.dead AS d WHERE $3::text = 'dead' AND d.message_id = messages.id
        UNION ALL
        SELECT p.seq FROM mainspring.parked AS p WHERE $3::text = 'parked' AND p.message_id = messages.id
        UNION ALL
        SELECT r.id FROM mainspring.run AS r WHERE $3::text = 'run' AND r.message_id = messages.id
        UNION ALL
        SELECT h.seq
        FROM (
            HANDLED_OF(messages, CASE WHEN $3::text = 'handled' THEN SHARE() ELSE 0 END)
        ) AS h
    ) AS c
    LIMIT $1 + 1
),
-- Whether a message that was handled may be in a batch that was not read: it has copies that are nowhere else.
passed_over AS MATERIALIZED (
    SELECT EXISTS (
        SELECT FROM messages AS m
        LEFT JOIN (SELECT few.id, count(*) AS times FROM few GROUP BY few.id) AS f ON f.id = m.id
        WHERE $3::text = 'handled'
          AND coalesce(f.times, 0) < greatest(m.copies, 1)
              - (SELECT count(*) FROM mainspring.delivery AS d WHERE d.message_id = m.id)
              - (SELECT count(*) FROM mainspring.dead AS d WHERE d.message_id = m.id)
              - (SELECT count(*) FROM mainspring.run AS r WHERE r.message_id = m.id AND r.status = 'cancelled')
          AND EXISTS (SELECT FROM mainspring.ended AS e WHERE e.at >= m.published_at OFFSET SHARE())
    ) AS any
)

-- name: causes_count
-- $1 groups, $2 fingerprints, $3 how many of each at most. The place of each cause, how many it has, and when the first and
-- the last of those was buried. Bounds are written as rows, so that only the index in this order will do.
SELECT c.place - 1, counted.many, counted.first_at, counted.last_at
FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS c (group_name, fingerprint, place)
CROSS JOIN LATERAL (
    SELECT count(*) AS many, min(n.buried_at) AS first_at, max(n.buried_at) AS last_at
    FROM (
        SELECT d.buried_at
        FROM mainspring.dead AS d
        WHERE (d.group_name, d.fingerprint) >= (c.group_name, c.fingerprint)
          AND (d.group_name, d.fingerprint) <= (c.group_name, c.fingerprint)
        ORDER BY d.group_name DESC, d.fingerprint DESC, d.seq DESC
        LIMIT $3
    ) AS n
) AS counted

-- name: causes_known
-- $1 group, may be null; $2 how many steps. Groups and fingerprints, from one to the next by the index.
--
-- Bounds are written as rows, so that only that index will do, also for a plan that was made while the table was small. A
-- row is found before it is asked whose it is, so that nothing is read of a group that has no more.
WITH RECURSIVE cause (group_name, fingerprint, step) AS (
    SELECT d.group_name, d.fingerprint, 1
    FROM (
        SELECT d.group_name, d.fingerprint
        FROM mainspring.dead AS d
        WHERE (d.group_name, d.fingerprint) >= (coalesce($1::text, ''), '')
        ORDER BY d.group_name, d.fingerprint
        LIMIT 1
    ) AS d
    WHERE $1 IS NULL OR d.group_name = $1
    UNION ALL
    SELECT d.group_name, d.fingerprint, cause.step + 1
    FROM cause
    CROSS JOIN LATERAL (
        SELECT d.group_name, d.fingerprint
        FROM mainspring.dead AS d
        WHERE (d.group_name, d.fingerprint) > (cause.group_name, cause.fingerprint)
        ORDER BY d.group_name, d.fingerprint
        LIMIT 1
    ) AS d
    WHERE cause.step < $2
      AND ($1 IS NULL OR d.group_name = $1)
)
SELECT cause.group_name, cause.fingerprint FROM cause

-- name: causes_latest
-- $1 groups, $2 fingerprints. The place of each cause, and kind and error of the newest of its dead letters.
SELECT c.place - 1, latest.kind, latest.error
FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS c (group_name, fingerprint, place)
CROSS JOIN LATERAL (
    SELECT d.kind, d.error
    FROM mainspring.dead AS d
    WHERE (d.group_name, d.fingerprint) >= (c.group_name, c.fingerprint)
      AND (d.group_name, d.fingerprint) <= (c.group_name, c.fingerprint)
    ORDER BY d.group_name DESC, d.fingerprint DESC, d.seq DESC
    LIMIT 1
) AS latest

-- name: payload_sizes
-- $1 seqs, $2 of what (live, dead, parked, run, handled). How many bytes the payload of each has, newest first: that is known without
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
    UNION ALL
    SELECT LISTED(e.message_ids, PLACE_OF(s.seq)) FROM mainspring.ended AS e
    WHERE $2::text = 'handled' AND e.id = BATCH_OF(s.seq)
) AS c
CROSS JOIN LATERAL (SELECT payload FROM mainspring.message WHERE id = c.message_id OFFSET 0) AS m
ORDER BY s.seq DESC

-- name: via_index_correlated
-- $1 at most, $2 before, $3 of what (live, dead, parked, run, handled), $4 correlation id, $5 the message of that id: may be null. One
-- row: how many there are, counted to one more than that, and their seqs. The first message of a chain need not have the
-- correlation id of the others, which is its own id.
WITH messages AS MATERIALIZED (
    (SELECT m.id, m.published_at, m.copies FROM mainspring.message AS m WHERE m.correlation_id = $4 LIMIT $1 + 1)
    UNION ALL
    (SELECT m.id, m.published_at, m.copies FROM mainspring.message AS m WHERE m.id = $5 AND m.correlation_id IS NULL)
),
FEW()
SELECT
    CASE
        WHEN (SELECT passed_over.any FROM passed_over) THEN $1 + 1
        ELSE greatest((SELECT count(*) FROM messages), (SELECT count(*) FROM few))
    END,
    ARRAY(SELECT few.seq FROM few WHERE few.seq < $2)

-- part: HANDLED_OF(message, most)
-- Where a message was handled: in a batch from its publishing on, so that nearly always few of these are read, and at most so
-- many. A message that was parked knows no number of copies.
SELECT PLACED(e.id, array_position(e.message_ids, {message}.id)) AS seq
FROM (
    SELECT id, group_name, message_ids
    FROM mainspring.ended
    WHERE at >= {message}.published_at
    ORDER BY at, id
    LIMIT {most}
) AS e
WHERE e.group_name IS NOT NULL AND {message}.id = ANY (e.message_ids)
LIMIT nullif({message}.copies, 0)

-- name: find_handled
-- $1 message id, $2 how many batches are read at most. Which entries of batches are about it.
SELECT h.seq
FROM mainspring.message AS m
CROSS JOIN LATERAL (
    HANDLED_OF(m, $2::bigint)
) AS h
WHERE m.id = $1

-- name: scan_handled
-- $1 before which, $2 how many; $3 group, $4 kind: each may be null. As scan_ended, of batches: entries of another group, or of messages that
-- have ended in another way, count as one.
SELECT count(*), min(w.seq), GATHERED(w.seq, w.hit)
FROM (
    SELECT PLACED(e.id, p.place) AS seq, e.hit
    FROM (
        SELECT e.id, e.size, HANDLED_MATCH($3, $4) AS hit
        FROM mainspring.ended AS e
        WHERE e.id <= BATCH_OF($1)
        ORDER BY e.id DESC
        -- Of the first, all may have been seen.
        LIMIT $2 + 1
    ) AS e
    CROSS JOIN LATERAL generate_series(CASE WHEN e.hit THEN least(e.size, 16383) ELSE 0 END, e.hit::integer, -1) AS p (place)
    WHERE PLACED(e.id, p.place) < $1
    LIMIT $2
) AS w

-- name: via_index_dead
-- $1 at most, $2 before, $3 topic, or $4 fingerprint. One row: how many there are, counted to one more than that, and their
-- seqs. A fingerprint is looked for in each group, from one to the next by the index; more than a thousand groups are as
-- good as too many.
WITH RECURSIVE groups (name, step) AS (
    (SELECT d.group_name, 1 FROM mainspring.dead AS d WHERE $4::text IS NOT NULL ORDER BY d.group_name LIMIT 1)
    UNION ALL
    SELECT (SELECT d.group_name FROM mainspring.dead AS d WHERE d.group_name > groups.name ORDER BY d.group_name LIMIT 1),
        groups.step + 1
    FROM groups
    WHERE groups.name IS NOT NULL AND groups.step <= 1000
),
named (name) AS MATERIALIZED (SELECT groups.name FROM groups WHERE groups.name IS NOT NULL),
few AS MATERIALIZED (
    (
        SELECT d.seq
        FROM named
        CROSS JOIN LATERAL (
            SELECT seq FROM mainspring.dead WHERE group_name = named.name AND fingerprint = $4 LIMIT $1 + 1
        ) AS d
        WHERE (SELECT count(*) FROM named) <= 1000
        LIMIT $1 + 1
    )
    UNION ALL
    (SELECT d.seq FROM mainspring.dead AS d WHERE $4 IS NULL AND d.topic = $3 LIMIT $1 + 1)
)
SELECT
    CASE WHEN (SELECT count(*) FROM named) > 1000 THEN $1 + 1 ELSE (SELECT count(*) FROM few) END,
    ARRAY(SELECT few.seq FROM few WHERE few.seq < $2)

-- name: via_index_ended
-- $1 at most, $2 before, $3 status, $4 topic: may be null. One row: how many there are, counted to one more than that, and
-- their ids.
WITH few AS MATERIALIZED (
    (SELECT r.id FROM mainspring.run AS r WHERE $4::text IS NULL AND r.status = $3 LIMIT $1 + 1)
    UNION ALL
    (SELECT r.id FROM mainspring.run AS r WHERE r.topic = $4 AND r.status = $3 LIMIT $1 + 1)
)
SELECT (SELECT count(*) FROM few), ARRAY(SELECT few.id FROM few WHERE few.id < $2)

-- name: via_index_keyed
-- $1 at most, $2 before, $3 of what (live, dead, parked, run, handled), $4 topic: may be null; $5 key. One row: how many there are,
-- counted to one more than that, and their seqs. Without a topic each is asked, from one to the next by the index.
WITH RECURSIVE topics (topic) AS (
    (
        SELECT m.topic FROM mainspring.message AS m
        WHERE $4::text IS NULL AND m.key IS NOT NULL ORDER BY m.topic LIMIT 1
    )
    UNION ALL
    SELECT (
        SELECT m.topic FROM mainspring.message AS m
        WHERE m.key IS NOT NULL AND m.topic > topics.topic ORDER BY m.topic LIMIT 1
    )
    FROM topics
    WHERE topics.topic IS NOT NULL
),
named (topic) AS MATERIALIZED (
    SELECT $4::text WHERE $4 IS NOT NULL
    UNION ALL
    -- More topics than that are not asked one by one.
    (SELECT topics.topic FROM topics WHERE topics.topic IS NOT NULL LIMIT 1001)
),
messages AS MATERIALIZED (
    SELECT m.id, m.published_at, m.copies
    FROM named
    CROSS JOIN LATERAL (
        SELECT id, published_at, copies FROM mainspring.message WHERE topic = named.topic AND key = $5 LIMIT $1 + 1
    ) AS m
    WHERE (SELECT count(*) FROM named) <= 1000
    LIMIT $1 + 1
),
FEW()
SELECT
    CASE
        WHEN (SELECT count(*) FROM named) > 1000 OR (SELECT passed_over.any FROM passed_over) THEN $1 + 1
        ELSE greatest((SELECT count(*) FROM messages), (SELECT count(*) FROM few))
    END,
    ARRAY(SELECT few.seq FROM few WHERE few.seq < $2)

-- name: via_index_live
-- $1 at most, $2 before, $3 state (live, held, scheduled, ready, running, lapsed, retrying), $4 group: may be null; $5 now. One row: how
-- many there are, counted to one more than that, and their seqs: found by the indexes of what is to be had and of what is
-- held. More than a thousand groups are not asked one by one: as good as too many.
WITH RECURSIVE unheld (name, step) AS (
    (
        SELECT d.group_name, 1 FROM mainspring.delivery AS d
        WHERE $4::text IS NULL AND $3::text NOT IN ('held', 'running', 'lapsed') AND d.held_by IS NULL ORDER BY d.group_name LIMIT 1
    )
    UNION ALL
    SELECT (
        SELECT d.group_name FROM mainspring.delivery AS d
        WHERE d.held_by IS NULL AND d.group_name > unheld.name ORDER BY d.group_name LIMIT 1
    ), unheld.step + 1
    FROM unheld
    WHERE unheld.name IS NOT NULL AND unheld.step <= 1000
),
held (name, step) AS (
    (
        SELECT d.group_name, 1 FROM mainspring.delivery AS d
        WHERE $4::text IS NULL AND $3::text IN ('held', 'running', 'lapsed', 'live') AND d.held_by IS NOT NULL ORDER BY d.group_name LIMIT 1
    )
    UNION ALL
    SELECT (
        SELECT d.group_name FROM mainspring.delivery AS d
        WHERE d.held_by IS NOT NULL AND d.group_name > held.name ORDER BY d.group_name LIMIT 1
    ), held.step + 1
    FROM held
    WHERE held.name IS NOT NULL AND held.step <= 1000
),
named (name) AS MATERIALIZED (
    SELECT $4::text WHERE $4 IS NOT NULL
    UNION
    SELECT name FROM unheld WHERE name IS NOT NULL
    UNION
    SELECT name FROM held WHERE name IS NOT NULL
),
few AS MATERIALIZED (
    SELECT c.seq
    FROM named
    CROSS JOIN LATERAL (
        SELECT ready.seq
        FROM unnest('{0,1,2,3}'::smallint[]) AS level
        CROSS JOIN LATERAL (
            SELECT d.seq FROM mainspring.delivery AS d
            WHERE d.group_name = named.name AND d.priority = level AND d.held_by IS NULL
              AND d.due_at <= NOW($5)
              AND $3 IN ('ready', 'retrying', 'live')
            LIMIT $1 + 1
        ) AS ready
        UNION ALL
        SELECT scheduled.seq
        FROM unnest('{0,1,2,3}'::smallint[]) AS level
        CROSS JOIN LATERAL (
            SELECT d.seq FROM mainspring.delivery AS d
            WHERE d.group_name = named.name AND d.priority = level AND d.held_by IS NULL
              AND d.due_at > NOW($5)
              AND $3 IN ('scheduled', 'retrying', 'live')
            LIMIT $1 + 1
        ) AS scheduled
        UNION ALL
        (
            SELECT d.seq FROM mainspring.delivery AS d
            WHERE d.group_name = named.name AND d.held_by IS NOT NULL
              AND d.due_at > NOW($5)
              AND $3 IN ('held', 'running', 'live')
            LIMIT $1 + 1
        )
        UNION ALL
        (
            SELECT d.seq FROM mainspring.delivery AS d
            WHERE d.group_name = named.name AND d.held_by IS NOT NULL
              AND d.due_at <= NOW($5)
              AND $3 IN ('held', 'lapsed', 'live')
            LIMIT $1 + 1
        )
    ) AS c
    WHERE (SELECT count(*) FROM named) <= 1000
    LIMIT $1 + 1
)
SELECT
    CASE WHEN (SELECT count(*) FROM named) > 1000 THEN $1 + 1 ELSE (SELECT count(*) FROM few) END,
    ARRAY(SELECT few.seq FROM few WHERE few.seq < $2)
