DELETE FROM mainspring_subscription WHERE pattern = ?1 AND group_name = ?2
