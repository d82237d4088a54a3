-- ?1 schedules, ?2 whether those that somebody asked for by hand too. Read from end to end: parked messages are few, and
-- schedules are not often paused.
SELECT seq, message_id
FROM mainspring_parked
WHERE schedule IN (SELECT value FROM json_each(?1)) AND (?2 OR NOT manual)
ORDER BY seq
