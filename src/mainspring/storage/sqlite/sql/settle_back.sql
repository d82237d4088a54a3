-- epoch never goes back: it is the fence (invariant 2). Only the attempt count forgives.
UPDATE mainspring_delivery
SET held_by = NULL, suspect = 0, due_at = ?2, attempt = max(attempt - ?3, 0)
WHERE seq = ?1
