-- ?1 to ?19 the columns of a schedule; when it was created stays.
UPDATE mainspring_schedule
SET app = ?2, origin = ?3, definition = ?4, declared_at = ?6, base_at = ?7, next_at = ?8, overrides = ?9,
    edits = ?10, version = ?11, revision = ?12, paused_at = ?13, paused_by = ?14, pause_reason = ?15, retired_at = ?16,
    fired = ?17, missed = ?18, skipped = ?19
WHERE name = ?1
