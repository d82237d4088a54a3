-- Waking idle workers.

-- name: bell_mark
-- What changes when something may have become due: the last seq handed out, and the rings without a new one.
-- Claims, settles and beats change neither, so that nobody wakes for them.
SELECT (SELECT seq FROM sqlite_sequence WHERE name = 'mainspring_delivery'),
       (SELECT value FROM mainspring_counter WHERE name = 'bell')

-- name: bell_ring
UPDATE mainspring_counter SET value = value + 1 WHERE name = 'bell'
