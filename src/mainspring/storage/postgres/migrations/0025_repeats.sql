-- A job that fails at every occurrence leaves one dead letter, the latest, which counts those that it has replaced.
ALTER TABLE mainspring.dead ADD COLUMN repeats bigint NOT NULL DEFAULT 0;
