-- Answers (number, checksum, breaking) of every migration that was applied.
SELECT number, checksum, breaking
FROM mainspring.migration
ORDER BY number
