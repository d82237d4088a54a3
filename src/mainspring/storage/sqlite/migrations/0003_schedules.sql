-- One row per schedule, whoever made it. What it is to do is three layers of JSON, read and merged by whoever looks; only
-- what has to be found or counted is a column of its own.
CREATE TABLE mainspring_schedule (
    name text NOT NULL PRIMARY KEY,
    app text NOT NULL,
    origin text NOT NULL,
    definition text NOT NULL,
    created_at integer NOT NULL,
    declared_at integer NOT NULL,
    base_at integer NOT NULL,
    next_at integer,
    overrides text NOT NULL,
    edits text NOT NULL,
    version integer NOT NULL,
    revision integer NOT NULL,
    paused_at integer,
    paused_by text,
    pause_reason text,
    retired_at integer,
    fired integer NOT NULL,
    missed integer NOT NULL,
    skipped integer NOT NULL
);
CREATE INDEX mainspring_schedule_due ON mainspring_schedule (app, next_at, name)
WHERE next_at IS NOT NULL AND paused_at IS NULL AND retired_at IS NULL;

CREATE TABLE mainspring_freeze (
    app text NOT NULL PRIMARY KEY,
    at integer NOT NULL,
    by_whom text NOT NULL,
    reason text NOT NULL
) WITHOUT ROWID;

-- Plain messages have neither, and the two indexes hold what schedules have published only.
ALTER TABLE mainspring_delivery ADD COLUMN schedule text;
ALTER TABLE mainspring_delivery ADD COLUMN manual integer NOT NULL DEFAULT 0;
ALTER TABLE mainspring_parked ADD COLUMN schedule text;
ALTER TABLE mainspring_parked ADD COLUMN manual integer NOT NULL DEFAULT 0;
ALTER TABLE mainspring_dead ADD COLUMN schedule text;
ALTER TABLE mainspring_dead ADD COLUMN manual integer NOT NULL DEFAULT 0;
CREATE INDEX mainspring_delivery_schedule ON mainspring_delivery (schedule, seq) WHERE schedule IS NOT NULL;
-- The number is model.schedule.NEVER: due when an earlier run has ended, and not before somebody says so.
CREATE INDEX mainspring_delivery_waiting ON mainspring_delivery (schedule, seq)
WHERE schedule IS NOT NULL AND due_at = 253402214400000000;

ALTER TABLE mainspring_run ADD COLUMN schedule text;
ALTER TABLE mainspring_run ADD COLUMN source text;
ALTER TABLE mainspring_run ADD COLUMN scheduled_for integer;
CREATE INDEX mainspring_run_schedule ON mainspring_run (schedule, id) WHERE schedule IS NOT NULL;
