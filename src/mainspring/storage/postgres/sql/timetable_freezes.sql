-- Columns in the order of model.schedule.Freeze.
SELECT app, at, by_whom, reason FROM mainspring.freeze ORDER BY app
