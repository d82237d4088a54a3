SELECT number, checksum, breaking FROM mainspring_migration ORDER BY number
