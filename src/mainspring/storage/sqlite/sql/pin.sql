-- Reads nothing, so that no snapshot is taken: it only meets the handle before the handler does.
SELECT 1
