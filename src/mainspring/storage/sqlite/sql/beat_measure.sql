INSERT INTO mainspring_measure (span, at, group_name, what, bin, count)
VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT (span, group_name, at, what, bin) DO UPDATE SET count = count + excluded.count
