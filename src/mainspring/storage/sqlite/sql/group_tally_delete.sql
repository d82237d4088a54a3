DELETE FROM mainspring_tally WHERE group_name = ?1
