-- ?1 app, ?2 since when nobody may have declared it, ?3 now. Answers the names.
-- What an API call has made is not the code's to take away (invariant 13).
UPDATE mainspring_schedule
SET retired_at = ?3, revision = revision + 1
WHERE app = ?1 AND origin = 'code' AND retired_at IS NULL AND declared_at <= ?2
RETURNING name
