INSERT INTO mainspring_ended (at, second, message_ids) VALUES (?1, ?2, ?3)
