INSERT INTO mainspring_subscription (pattern, group_name, wild, matcher) VALUES (?1, ?2, ?3, ?4)
