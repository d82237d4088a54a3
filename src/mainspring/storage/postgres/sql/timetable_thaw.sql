-- $1 app. Answers one row when there was a freeze.
DELETE FROM mainspring.freeze WHERE app = $1 RETURNING app
