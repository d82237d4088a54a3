-- Waking idle workers.

-- name: bell_mark
-- What changes when something may have become due: the last seq handed out, and the rings without a new one.
-- Claims, settles and beats change neither, so that nobody wakes for them.
SELECT (SELECT seq FROM sqlite_sequence WHERE name = 'mainspring_delivery'),
       (SELECT value FROM mainspring_counter WHERE name = 'bell')

-- name: bell_ring
UPDATE mainspring_counter SET value = value + 1 WHERE name = 'bell'

-- name: bell_due
-- The groups that have something due.
SELECT DISTINCT group_name FROM mainspring_delivery WHERE held_by IS NULL AND due_at <= ?1

-- name: bell_groups
-- The groups of the deliveries that came after this seq.
SELECT DISTINCT group_name FROM mainspring_delivery WHERE seq > ?1
