-- What an operator set, as a pause, is not touched (invariant 13).
UPDATE mainspring_groups SET handler = ?2, options = ?3 WHERE name = ?1
