-- The schedules that each process has in its code, and of which app and version it is. Null: written by a release that keeps
-- them alive by schedule.declared_at alone.
ALTER TABLE mainspring.declaration
    ADD COLUMN app text COLLATE "C",
    ADD COLUMN version bigint,
    ADD COLUMN schedules text[] COLLATE "C";
