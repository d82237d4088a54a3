DELETE FROM mainspring_worker WHERE name = ?1
