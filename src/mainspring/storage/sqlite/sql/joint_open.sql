INSERT INTO mainspring_joint (id, opened_at, pending, on_done, on_failed) VALUES (?1, ?2, ?3, ?4, ?5)
