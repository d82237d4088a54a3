DELETE FROM mainspring_schedule WHERE name = ?1
