-- epoch only ever grows: it is the fence.
UPDATE mainspring_delivery
SET held_by = ?2, due_at = ?3, epoch = epoch + 1, attempt = attempt + 1
WHERE seq IN (SELECT value FROM json_each(?1)) AND held_by IS NULL
