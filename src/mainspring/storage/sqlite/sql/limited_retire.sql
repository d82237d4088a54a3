DELETE FROM mainspring_spent WHERE group_name = ?1
