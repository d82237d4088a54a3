DELETE FROM mainspring_groups WHERE name = ?1
