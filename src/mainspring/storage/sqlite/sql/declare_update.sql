UPDATE mainspring_groups SET handler = ?2, options = ?3 WHERE name = ?1
