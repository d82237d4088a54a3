-- deaths counts only what was a suspect already: the innocent neighbour of a poison never collects any.
UPDATE mainspring_delivery
SET held_by = ?2, due_at = ?3, epoch = epoch + 1, attempt = attempt + 1, deaths = deaths + suspect, suspect = 1
WHERE seq = ?1
