SELECT pattern, group_name
FROM mainspring_subscription
WHERE pattern IN (SELECT value FROM json_each(?1)) AND NOT wild
UNION ALL
SELECT pattern, group_name
FROM mainspring_subscription
WHERE wild
