INSERT INTO mainspring_migration (number, name, checksum, breaking, applied_at) VALUES (?1, ?2, ?3, ?4, ?5)
