DELETE FROM mainspring_ended WHERE id IN (SELECT value FROM json_each(?1))
