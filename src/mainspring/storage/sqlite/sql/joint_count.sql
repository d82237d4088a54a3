UPDATE mainspring_joint SET pending = pending - ?2 - ?3, done = done + ?2, failed = failed + ?3 WHERE id = ?1
