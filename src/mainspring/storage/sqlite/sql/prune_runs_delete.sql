DELETE FROM mainspring_run WHERE id IN (SELECT value FROM json_each(?1))
