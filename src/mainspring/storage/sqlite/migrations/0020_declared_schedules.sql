-- The schedules that each process has in its code, and of which app and version it is. Null: written by a release that keeps
-- them alive by schedule.declared_at alone.
ALTER TABLE mainspring_declaration ADD COLUMN app text;
ALTER TABLE mainspring_declaration ADD COLUMN version integer;
ALTER TABLE mainspring_declaration ADD COLUMN schedules text;
