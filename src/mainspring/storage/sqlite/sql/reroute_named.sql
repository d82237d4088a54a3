-- The parked topics that are subscribed to by name: a look into the index for each.
SELECT DISTINCT s.pattern
FROM mainspring_subscription AS s
WHERE NOT s.wild AND EXISTS (SELECT 1 FROM mainspring_parked AS p WHERE p.topic = s.pattern)
