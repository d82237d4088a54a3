-- $1 id, $2 detail: null leaves it; $3 what in it becomes $4.
UPDATE mainspring.audit SET detail = replace(coalesce($2::text, detail), $3, $4) WHERE id = $1
