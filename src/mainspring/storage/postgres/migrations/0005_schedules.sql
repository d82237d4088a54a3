-- One row per schedule, whoever made it. What it is to do is three layers of JSON, read and merged by whoever looks; only
-- what has to be found or counted is a column of its own.
CREATE TABLE mainspring.schedule (
    name text COLLATE "C" PRIMARY KEY,
    next_at timestamptz,
    base_at timestamptz NOT NULL,
    created_at timestamptz NOT NULL,
    declared_at timestamptz NOT NULL,
    paused_at timestamptz,
    retired_at timestamptz,
    version bigint NOT NULL,
    revision bigint NOT NULL,
    fired bigint NOT NULL,
    missed bigint NOT NULL,
    skipped bigint NOT NULL,
    app text COLLATE "C" NOT NULL,
    origin text COLLATE "C" NOT NULL,
    paused_by text,
    pause_reason text,
    definition text NOT NULL,
    overrides text NOT NULL,
    edits text NOT NULL
);
CREATE INDEX schedule_due ON mainspring.schedule (app, next_at)
WHERE next_at IS NOT NULL AND paused_at IS NULL AND retired_at IS NULL;
-- Written again with every occurrence, and read by every node at every look.
ALTER TABLE mainspring.schedule SET (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_vacuum_threshold = 500,
    autovacuum_vacuum_cost_delay = 0
);

CREATE TABLE mainspring.freeze (
    app text COLLATE "C" PRIMARY KEY,
    at timestamptz NOT NULL,
    by_whom text NOT NULL,
    reason text NOT NULL
);

-- Plain messages have neither: a null takes no room, and the two indexes hold what schedules have published only.
ALTER TABLE mainspring.delivery ADD COLUMN schedule text COLLATE "C", ADD COLUMN manual boolean NOT NULL DEFAULT false;
ALTER TABLE mainspring.parked ADD COLUMN schedule text COLLATE "C", ADD COLUMN manual boolean NOT NULL DEFAULT false;
ALTER TABLE mainspring.dead ADD COLUMN schedule text COLLATE "C", ADD COLUMN manual boolean NOT NULL DEFAULT false;
CREATE INDEX delivery_schedule ON mainspring.delivery (schedule, seq) WHERE schedule IS NOT NULL;
-- The instant is model.schedule.NEVER: due when an earlier run has ended, and not before somebody says so.
CREATE INDEX delivery_waiting ON mainspring.delivery (schedule, seq)
WHERE due_at = '9999-12-31 00:00:00+00' AND schedule IS NOT NULL;

ALTER TABLE mainspring.run
    ADD COLUMN schedule text COLLATE "C",
    ADD COLUMN source text COLLATE "C",
    ADD COLUMN scheduled_for timestamptz;
CREATE INDEX run_schedule ON mainspring.run (schedule, id) WHERE schedule IS NOT NULL;
