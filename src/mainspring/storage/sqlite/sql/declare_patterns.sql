SELECT pattern FROM mainspring_subscription WHERE group_name = ?1
