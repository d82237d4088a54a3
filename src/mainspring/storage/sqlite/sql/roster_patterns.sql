SELECT group_name, pattern FROM mainspring_subscription ORDER BY group_name, pattern
