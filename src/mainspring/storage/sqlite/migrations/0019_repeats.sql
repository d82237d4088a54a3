-- A job that fails at every occurrence leaves one dead letter, the latest, which counts those that it has replaced.
ALTER TABLE mainspring_dead ADD COLUMN repeats integer NOT NULL DEFAULT 0;
CREATE INDEX mainspring_dead_schedule ON mainspring_dead (schedule, group_name) WHERE schedule IS NOT NULL;
