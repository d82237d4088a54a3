DELETE FROM mainspring_subscription WHERE group_name = ?1
