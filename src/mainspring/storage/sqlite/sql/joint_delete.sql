DELETE FROM mainspring_joint WHERE id = ?1
