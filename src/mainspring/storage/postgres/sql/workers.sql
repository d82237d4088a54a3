-- Workers: declarations, heartbeats, the doorbell.

-- name: beat
-- $1 worker, $2 app, $3 host, $4 pid, $5 groups, $6 in hand, $7 bell; $8 groups, $9 handled, $10 failed; $11 tripped; $12 now;
-- $13 groups, $14 what was counted, $15 bins, $16 counts, $17 the spans in which they are added up, $18 the worker's slot;
-- $19 which start it is of, $20 its number, $21 whether it drains, $22 its connections to brokers: may be null. One row:
-- whether it is to drain.
WITH clock AS MATERIALIZED (
    SELECT NOW($12) AS now
    -- A locked row of the worker, or of its counts, is waited for no longer: the same beat is sent again.
    WHERE set_config('lock_timeout', '1000', true) IS NOT NULL
),
-- No row where this very beat was taken already, so that nothing is counted twice (invariant 23): also not while the first one of them
-- is still on its way, since the row is looked at under its lock.
seen AS (
    INSERT INTO mainspring.worker AS w (
        name, app, host, pid, groups, in_hand, bell, started_at, beat_at, tripped, start_id, beats, drains, links,
        draining_at
    )
    SELECT
        $1, $2, $3, $4, $5::text[], $6, $7, clock.now, clock.now, $11::text[], $19::text, $20::bigint, $21::boolean,
        $22::text,
        -- The roster had forgotten it.
        CASE WHEN $21::boolean THEN clock.now END
    FROM clock
    ON CONFLICT (name) DO UPDATE
    SET app = excluded.app,
        host = excluded.host,
        pid = excluded.pid,
        groups = excluded.groups,
        in_hand = excluded.in_hand,
        bell = excluded.bell,
        tripped = excluded.tripped,
        beat_at = excluded.beat_at,
        start_id = excluded.start_id,
        beats = excluded.beats,
        drains = excluded.drains,
        links = excluded.links,
        -- Only the first beat of another start is a restart: two workers may run under one name.
        started_at = CASE WHEN w.start_id <> $19::text AND $20::bigint = 1 THEN excluded.started_at ELSE w.started_at END,
        draining_at = CASE WHEN w.start_id <> $19::text AND $20::bigint = 1 THEN NULL ELSE w.draining_at END,
        drained_by = CASE WHEN w.start_id <> $19::text AND $20::bigint = 1 THEN NULL ELSE w.drained_by END
    WHERE $20::bigint = 0 OR w.start_id <> $19::text OR w.beats < $20::bigint
    RETURNING draining_at IS NOT NULL AS drain
),
counted AS (
    INSERT INTO mainspring.tally AS t (worker, group_name, handled, failed)
    SELECT $1, r.group_name, r.handled, r.failed
    FROM seen
    CROSS JOIN unnest($8::text[], $9::bigint[], $10::bigint[]) AS r (group_name, handled, failed)
    ORDER BY r.group_name
    ON CONFLICT (worker, group_name) DO UPDATE
    SET handled = t.handled + excluded.handled, failed = t.failed + excluded.failed
),
-- In the order of the key, as every worker does: those of one slot add to the same rows.
-- Measured with 24 workers that beat without a pause on two busy cores: 141 beats a second where all add to one row for each
-- count, 735 in slots; with one worker both take the same time.
measured AS (
    INSERT INTO mainspring.measure_slot AS m (span, at, slot, group_name, what, bin, count)
    SELECT
        s.span,
        to_timestamp(floor(extract(epoch FROM clock.now) / s.span) * s.span) AS at,
        $18::smallint,
        r.group_name,
        r.what,
        r.bin,
        r.count
    FROM seen
    CROSS JOIN clock
    CROSS JOIN unnest($17::integer[]) AS s (span)
    CROSS JOIN unnest($13::text[], $14::text[], $15::integer[], $16::bigint[]) AS r (group_name, what, bin, count)
    ORDER BY s.span, r.group_name, r.what, r.bin
    ON CONFLICT (span, group_name, at, slot, what, bin) DO UPDATE SET count = m.count + excluded.count
),
-- Once a minute is enough, and a concurrent beat writes the same.
stale AS MATERIALIZED (
    SELECT g.name
    FROM mainspring.groups AS g
    WHERE EXISTS (SELECT FROM seen)
      AND g.name = ANY ($5::text[])
      AND (g.served_at IS NULL OR g.served_at < (SELECT clock.now FROM clock) - interval '60 seconds')
    ORDER BY g.name
    FOR UPDATE SKIP LOCKED
),
served AS (
    UPDATE mainspring.groups
    SET served_at = (SELECT clock.now FROM clock)
    WHERE name = ANY (ARRAY(SELECT stale.name FROM stale))
)
SELECT coalesce(
    (SELECT seen.drain FROM seen),
    (SELECT w.draining_at IS NOT NULL FROM mainspring.worker AS w WHERE w.name = $1),
    false
)

-- name: bell_arm
-- $1 groups, $2 whose ear, $3 for how long, $4 now. A row per ear: one worker that wakes must not silence the bell
-- of another that sleeps on. One that another session has locked is left as it is: without it the worker looks by itself.
WITH free AS MATERIALIZED (
    SELECT b.group_name
    FROM mainspring.bell AS b
    WHERE b.group_name = ANY ($1::text[]) AND b.ear = $2
    ORDER BY b.group_name
    FOR UPDATE SKIP LOCKED
)
INSERT INTO mainspring.bell (group_name, ear, armed_until)
SELECT g.name, $2, NOW($4) + $3::interval
FROM unnest($1::text[]) AS g (name)
WHERE g.name IN (SELECT free.group_name FROM free)
   OR NOT EXISTS (SELECT FROM mainspring.bell AS b WHERE b.group_name = g.name AND b.ear = $2)
ORDER BY g.name
ON CONFLICT (group_name, ear) DO UPDATE SET armed_until = excluded.armed_until

-- name: bell_disarm
-- $1 groups, $2 whose ear, $3 now. Rows stay: the next arming rewrites them in place. One that another session has locked rings on.
WITH armed AS MATERIALIZED (
    SELECT b.group_name
    FROM mainspring.bell AS b
    WHERE b.group_name = ANY ($1::text[]) AND b.ear = $2 AND b.armed_until > NOW($3)
    ORDER BY b.group_name
    FOR UPDATE SKIP LOCKED
)
UPDATE mainspring.bell
SET armed_until = NOW($3)
WHERE group_name = ANY (ARRAY(SELECT armed.group_name FROM armed)) AND ear = $2

-- name: bell_ring
-- $1 channel, $2 what is said.
SELECT pg_notify($1, $2)

-- name: bell_rouse
-- $1 channel, $2 now. Only for workers that sleep on something due: each level is a look into the claim's own index, so that a
-- million rows of later do not make it slow.
SELECT count(pg_notify($1, asleep.group_name))
FROM (
    SELECT DISTINCT bell.group_name
    FROM mainspring.bell
    WHERE bell.armed_until > NOW($2)
) AS asleep
WHERE EXISTS (
    SELECT
    FROM unnest('{0,1,2,3}'::smallint[]) AS level (priority)
    WHERE EXISTS (
        SELECT
        FROM mainspring.delivery AS d
        WHERE d.group_name = asleep.group_name
          AND d.priority = level.priority
          AND d.held_by IS NULL
          AND d.due_at <= NOW($2)
    )
)

-- name: declare_groups
-- $1 groups, $2 apps, $3 handlers, $4 options, $5 versions, $6 now.
-- What an operator set, as a pause, is not touched (invariant 13). A group of another app is left alone; a later read shows that it
-- is. What a newer version has written stays (invariant 26).
INSERT INTO mainspring.groups (name, app, handler, options, version, declared_at)
SELECT d.name, d.app, d.handler, d.options, d.version, NOW($6)
FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bigint[]) AS d (name, app, handler, options, version)
ORDER BY d.name
ON CONFLICT (name) DO UPDATE
SET handler = excluded.handler, options = excluded.options, version = excluded.version
WHERE groups.app = excluded.app AND groups.version <= excluded.version

-- name: declare_kept
-- $1 groups; $2 worker, $3 its start; $4 after how long a silent one counts no more, $5 now. Returns (group, pattern): what
-- others have declared.
WITH clock AS MATERIALIZED (
    SELECT NOW($5) - $4::interval AS cutoff
),
-- Only a process that was there all the time can tell that another was silent: after an outage all were.
judge AS MATERIALIZED (
    SELECT EXISTS (
        SELECT FROM mainspring.declaration AS d, clock
        WHERE d.worker = $2 AND d.start_id = $3 AND $3 <> '' AND d.since <= clock.cutoff
    ) AS stands
)
SELECT DISTINCT declared.group_name, declared.pattern
FROM clock
CROSS JOIN judge
CROSS JOIN mainspring.declaration AS d
CROSS JOIN LATERAL unnest(d.groups, d.patterns) AS declared (group_name, pattern)
WHERE declared.group_name = ANY ($1::text[])
  AND (d.worker <> $2 OR d.start_id <> $3)
  AND (NOT judge.stands OR d.start_id = '' OR d.seen_at >= clock.cutoff)

-- name: declare_lock
-- $1 groups. Keeps out every process that declares the same groups until the transaction ends.
SELECT FROM mainspring.groups AS g WHERE g.name = ANY ($1::text[]) ORDER BY g.name FOR UPDATE

-- name: declare_seen
-- $1 worker, $2 its start; $3 groups, $4 patterns: what it declares; $5 after how long it was away in between, $6 now.
INSERT INTO mainspring.declaration AS d (since, seen_at, worker, start_id, groups, patterns)
SELECT clock.now, clock.now, $1, $2, $3::text[], $4::text[]
FROM (SELECT NOW($6) AS now) AS clock
ON CONFLICT (worker, start_id) DO UPDATE
SET since = CASE WHEN d.seen_at < excluded.seen_at - $5::interval THEN excluded.since ELSE d.since END,
    seen_at = excluded.seen_at,
    groups = excluded.groups,
    patterns = excluded.patterns

-- name: declare_subscribe
-- $1 patterns, $2 groups, $3 wild, $4 matchers.
INSERT INTO mainspring.subscription (pattern, group_name, wild, matcher)
SELECT w.pattern, w.group_name, w.wild, w.matcher
FROM unnest($1::text[], $2::text[], $3::boolean[], $4::text[]) AS w (pattern, group_name, wild, matcher)
ORDER BY w.pattern, w.group_name
ON CONFLICT (pattern, group_name) DO NOTHING

-- name: declare_unsubscribe
-- $1 groups, $2 patterns.
DELETE FROM mainspring.subscription AS s
USING unnest($1::text[], $2::text[]) AS w (group_name, pattern)
WHERE s.group_name = w.group_name AND s.pattern = w.pattern

-- name: declared
-- $1 groups; $2 worker, $3 its start; $4 groups, $5 patterns: what it declares; $6 how often that is recorded, $7 now.
-- Returns (name, app, handler, options, version, patterns, whether it was recorded recently) of the groups that are known.
WITH seen AS MATERIALIZED (
    SELECT EXISTS (
        SELECT FROM mainspring.declaration AS d
        WHERE d.worker = $2
          AND d.start_id = $3
          AND d.groups = $4::text[]
          AND d.patterns = $5::text[]
          AND d.seen_at > NOW($7) - $6::interval
    ) AS lately
)
SELECT
    g.name, g.app, g.handler, g.options, g.version,
    ARRAY(SELECT s.pattern FROM mainspring.subscription AS s WHERE s.group_name = g.name ORDER BY s.pattern),
    seen.lately
FROM mainspring.groups AS g
CROSS JOIN seen
WHERE g.name = ANY ($1::text[])

-- name: deregister
-- $1 workers, $2 their start, where it is known. What they have done stays counted, under no worker's name; what they have
-- declared counts no more. A worker whose row is locked is left on the roster, and forgotten later; the counts are shared by all
-- who leave, and waited for no longer than a second.
WITH leaving AS MATERIALIZED (
    SELECT w.name
    FROM mainspring.worker AS w
    WHERE w.name = ANY ($1::text[]) AND set_config('lock_timeout', '1000', true) IS NOT NULL
    ORDER BY w.name
    FOR UPDATE SKIP LOCKED
),
gone AS (
    DELETE FROM mainspring.worker WHERE name = ANY (ARRAY(SELECT leaving.name FROM leaving))
),
withdrawn AS (
    DELETE FROM mainspring.declaration WHERE worker = ANY ($1::text[]) AND start_id = $2 AND start_id <> ''
),
done AS (
    DELETE FROM mainspring.tally
    WHERE worker = ANY ($1::text[])
      AND worker <> ALL (
        ARRAY(SELECT w.name FROM mainspring.worker AS w WHERE w.name = ANY ($1) AND w.name NOT IN (SELECT leaving.name FROM leaving))
    )
    RETURNING group_name, handled, failed
)
INSERT INTO mainspring.tally AS t (worker, group_name, handled, failed)
SELECT '', done.group_name, sum(done.handled), sum(done.failed)
FROM done
GROUP BY done.group_name
ORDER BY done.group_name
ON CONFLICT (worker, group_name) DO UPDATE
SET handled = t.handled + excluded.handled, failed = t.failed + excluded.failed

-- name: prune_declarations
-- $1 how long what a silent process has declared is kept, $2 limit, $3 now.
DELETE FROM mainspring.declaration
WHERE (worker, start_id) IN (
    SELECT d.worker, d.start_id
    FROM mainspring.declaration AS d
    WHERE d.seen_at < NOW($3) - $1::interval
    ORDER BY d.worker, d.start_id
    LIMIT $2
    FOR UPDATE SKIP LOCKED
)

-- name: prune_workers
-- $1 how long a silent worker is kept, $2 limit, $3 now. Returns their names; deregister removes them.
SELECT name
FROM mainspring.worker
WHERE beat_at < NOW($3) - $1::interval
ORDER BY beat_at
LIMIT $2

-- name: record
-- $1 message ids, $2 groups, $3 topics, $4 attempts, $5 statuses, $6 started, $7 finished, $8 nodes, $9 kinds, $10 errors,
-- $11 tracebacks, $12 outputs, $13 sources, $14 schedules, $15 scheduled for: the runs, one per place.
INSERT INTO mainspring.run (
    message_id, group_name, topic, attempt, status, started_at, finished_at, node, kind, error, traceback, output, source,
    schedule, scheduled_for
)
SELECT
    r.message_id, r.group_name, r.topic, r.attempt, r.status, r.started_at, r.finished_at, r.node, r.kind, r.error,
    r.traceback, r.output, r.source, r.schedule, r.scheduled_for
FROM unnest(
    $1::uuid[], $2::text[], $3::text[], $4::integer[], $5::text[], $6::timestamptz[], $7::timestamptz[], $8::text[],
    $9::text[], $10::text[], $11::text[], $12::text[], $13::text[], $14::text[], $15::timestamptz[]
) WITH ORDINALITY AS r (
    message_id, group_name, topic, attempt, status, started_at, finished_at, node, kind, error, traceback, output,
    source, schedule, scheduled_for, position
)
ORDER BY r.position

-- name: report
-- $1 seqs in rising order, $2 epochs, $3 message ids, $4 what is said, $5 owner, $6 now.
-- No delivery is locked: it may be settled at this very moment, and then the row is not shown.
-- What another session has locked is left as it is, until more is said of that run.
WITH free AS MATERIALIZED (
    SELECT f.seq
    FROM mainspring.progress AS f
    WHERE f.seq = ANY ($1::bigint[])
    ORDER BY f.seq
    FOR UPDATE SKIP LOCKED
)
INSERT INTO mainspring.progress AS p (seq, epoch, said, at)
SELECT told.seq, told.epoch, told.said, NOW($6)
FROM unnest($1::bigint[], $2::integer[], $3::uuid[], $4::text[]) AS told (seq, epoch, message_id, said)
CROSS JOIN LATERAL (
    SELECT message_id, held_by FROM mainspring.delivery WHERE seq = told.seq AND epoch = told.epoch OFFSET 0
) AS held
WHERE held.message_id = told.message_id
  AND held.held_by = $5
  AND (
      told.seq IN (SELECT free.seq FROM free)
      OR NOT EXISTS (SELECT FROM mainspring.progress AS known WHERE known.seq = told.seq)
  )
ORDER BY told.seq
ON CONFLICT (seq) DO UPDATE SET epoch = excluded.epoch, said = excluded.said, at = excluded.at
-- An old holder that still saw itself hold it takes nothing back (invariant 2).
WHERE p.epoch <= excluded.epoch

-- name: outlook
-- $1 app, $2 groups, $3 now. One row: how long until there is something to do, or null.
WITH served AS MATERIALIZED (
    SELECT w.group_name
    FROM unnest($2::text[]) AS w (group_name)
    WHERE NOT EXISTS (
        SELECT FROM mainspring.groups AS g WHERE g.name = w.group_name AND g.paused_at IS NOT NULL
    )
)
SELECT min(first.at) - NOW($3)
FROM (
    SELECT (
        SELECT d.due_at
        FROM mainspring.delivery AS d
        WHERE d.group_name = served.group_name AND d.priority = level AND d.held_by IS NULL
        ORDER BY d.due_at, d.seq
        LIMIT 1
    ) AS at
    FROM served, unnest('{0,1,2,3}'::smallint[]) AS level
    UNION ALL
    SELECT (
        SELECT d.due_at
        FROM mainspring.delivery AS d
        WHERE d.group_name = served.group_name AND d.held_by IS NOT NULL
        ORDER BY d.due_at, d.seq
        LIMIT 1
    )
    FROM served
    UNION ALL
    (
        SELECT s.next_at
        FROM mainspring.schedule AS s
        WHERE s.app = $1
          AND s.next_at IS NOT NULL AND s.paused_at IS NULL AND s.retired_at IS NULL
          AND NOT EXISTS (SELECT FROM mainspring.freeze AS f WHERE f.app IN ('', $1))
        ORDER BY s.next_at
        LIMIT 1
    )
    UNION ALL
    (SELECT NOW($3) FROM mainspring.joint_end AS e ORDER BY e.id LIMIT 1)
) AS first
