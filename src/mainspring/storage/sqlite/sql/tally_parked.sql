-- ?1 cap, ?2 prefix of the topics that count: may be null. What follows a slash in order is a nought, so a namespace is one
-- range of the index.
SELECT (SELECT count(*) FROM (
           SELECT 1 FROM mainspring_parked
           WHERE coalesce(?2, '') = '' AND (?2 IS NULL OR instr(topic, '/') = 0)
           LIMIT ?1
       ))
       + (SELECT count(*) FROM (
           SELECT 1 FROM mainspring_parked
           WHERE ?2 <> '' AND topic >= ?2 AND topic < substr(?2, 1, length(?2) - 1) || '0'
           LIMIT ?1
       )),
       (SELECT value FROM mainspring_counter WHERE name = 'expired_parked')
