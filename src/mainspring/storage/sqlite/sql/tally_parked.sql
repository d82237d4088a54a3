-- ?1 cap.
SELECT (SELECT count(*) FROM (SELECT 1 FROM mainspring_parked LIMIT ?1)),
       (SELECT value FROM mainspring_counter WHERE name = 'expired_parked')
