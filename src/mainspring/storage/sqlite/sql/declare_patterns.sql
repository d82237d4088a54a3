SELECT group_name, pattern FROM mainspring_subscription WHERE group_name IN (SELECT value FROM json_each(?1))
