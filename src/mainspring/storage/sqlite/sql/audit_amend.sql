-- ?1 id, ?2 detail: null leaves it; ?3 what in it becomes ?4.
UPDATE mainspring_audit SET detail = replace(coalesce(?2, detail), ?3, ?4) WHERE id = ?1
