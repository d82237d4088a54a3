-- The newest version of its app that has declared a group: older ones add subscriptions, and remove none.
ALTER TABLE mainspring.groups ADD COLUMN version bigint NOT NULL DEFAULT 0;

-- What each process has declared, and since when it has done so without a break. Publishers never read it: it is written every few
-- seconds, and subscription only when something changes.
CREATE TABLE mainspring.declaration (
    since timestamptz NOT NULL,
    seen_at timestamptz NOT NULL,
    worker text COLLATE "C" NOT NULL,
    start_id text COLLATE "C" NOT NULL,
    groups text[] COLLATE "C" NOT NULL,
    patterns text[] COLLATE "C" NOT NULL,
    PRIMARY KEY (worker, start_id)
);
ALTER TABLE mainspring.declaration SET (fillfactor = 50);
