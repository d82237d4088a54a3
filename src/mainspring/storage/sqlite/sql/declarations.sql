-- Groups and their subscriptions.

-- name: declare_group
-- ?1 group, ?2 app, ?3 handler, ?4 options, ?5 version, ?6 now. What an operator set, as a pause, is not touched (invariant 13).
INSERT INTO mainspring_groups AS g (name, app, handler, options, version, declared_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT (name) DO UPDATE SET handler = ?3, options = ?4, version = ?5

-- name: declare_kept
-- ?1 groups; ?2 worker, ?3 its start; ?4 who was seen before counts no more. Rows of (group, pattern): what others have declared.
-- Only a process that was there all the time can tell that another was silent: after an outage all were.
SELECT DISTINCT json_extract(declared.value, '$[0]'), json_extract(declared.value, '$[1]')
FROM mainspring_declaration AS d, json_each(d.declared) AS declared
WHERE json_extract(declared.value, '$[0]') IN (SELECT value FROM json_each(?1))
  AND (d.worker <> ?2 OR d.start_id <> ?3)
  AND (
        d.start_id = ''
        OR d.seen_at >= ?4
        OR NOT EXISTS (
            SELECT 1 FROM mainspring_declaration AS judge
            WHERE judge.worker = ?2 AND judge.start_id = ?3 AND ?3 <> '' AND judge.since <= ?4
        )
    )

-- name: declare_lately
-- ?1 worker, ?2 its start, ?3 what it declares, ?4 since when. A row if that was written down lately.
SELECT 1 FROM mainspring_declaration WHERE worker = ?1 AND start_id = ?2 AND declared = ?3 AND seen_at > ?4

-- name: declare_patterns
SELECT group_name, pattern FROM mainspring_subscription WHERE group_name IN (SELECT value FROM json_each(?1))

-- name: declare_seen
-- ?1 worker, ?2 its start, ?3 what it declares, ?4 who was seen before was away in between, ?5 now.
INSERT INTO mainspring_declaration AS d (worker, start_id, declared, since, seen_at)
VALUES (?1, ?2, ?3, ?5, ?5)
ON CONFLICT (worker, start_id) DO UPDATE
SET since = CASE WHEN d.seen_at < ?4 THEN ?5 ELSE d.since END, seen_at = ?5, declared = ?3

-- name: declare_subscribe
INSERT INTO mainspring_subscription (pattern, group_name, wild, matcher) VALUES (?1, ?2, ?3, ?4)

-- name: declare_unsubscribe
DELETE FROM mainspring_subscription WHERE pattern = ?1 AND group_name = ?2

-- name: declared
SELECT name, app, handler, options, version FROM mainspring_groups WHERE name IN (SELECT value FROM json_each(?1))

-- name: group_delete
DELETE FROM mainspring_groups WHERE name = ?1

-- name: group_deliveries
-- In the order of the indexes: to sort by seq would be to read all of a group for every few of it.
SELECT seq, message_id, join_id FROM mainspring_delivery WHERE held_by IS NULL AND group_name = ?1
UNION ALL
SELECT seq, message_id, join_id FROM mainspring_delivery WHERE held_by IS NOT NULL AND group_name = ?1
LIMIT ?2

-- name: group_retired
-- Unlike a cancelled one, a retired delivery may be in somebody's hands: the run says whose.
INSERT INTO mainspring_run (
    message_id, group_name, topic, attempt, status, started_at, finished_at, node, error, schedule, source,
    scheduled_for
)
SELECT d.message_id, d.group_name, m.topic, d.attempt, 'cancelled', ?2, ?2,
       -- Its name, without the token of its start.
       CASE WHEN substr(d.held_by, -17, 1) = '~' THEN substr(d.held_by, 1, length(d.held_by) - 17) ELSE d.held_by END, ?3,
       d.schedule,
       CASE
           WHEN d.manual THEN 'manual'
           WHEN d.schedule IS NOT NULL THEN 'schedule'
           WHEN d.scheduled_for > d.published_at THEN 'deferred'
           ELSE 'message'
       END,
       d.scheduled_for
FROM json_each(?1) AS dropped
CROSS JOIN mainspring_delivery AS d ON d.seq = dropped.value
CROSS JOIN mainspring_message AS m ON m.id = d.message_id

-- name: group_tally_delete
DELETE FROM mainspring_tally WHERE group_name = ?1

-- name: group_there
SELECT app, handler, options FROM mainspring_groups WHERE name = ?1

-- name: group_unsubscribe
DELETE FROM mainspring_subscription WHERE group_name = ?1
