DELETE FROM mainspring_freeze WHERE app = ?1 RETURNING 1
