SELECT draining_at FROM mainspring_worker WHERE name = ?1
