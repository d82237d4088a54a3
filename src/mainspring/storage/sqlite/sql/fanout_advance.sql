-- ?1 topic, ?2 work, ?3 shard, ?4 window, ?5 now. Answers one row when the cursor was before it.
UPDATE mainspring_fanout_cursor
SET completed = ?4, completed_at = ?5, seen_at = ?5
WHERE topic = ?1
  AND work = ?2
  AND shard = ?3
  -- A cursor goes no further than what was planned, and never back: an earlier window that comes late changes nothing.
  AND planned >= ?4
  AND (completed IS NULL OR completed < ?4)
RETURNING 1
