-- The newest version of its app that has declared a group: older ones add subscriptions, and remove none.
ALTER TABLE mainspring_groups ADD COLUMN version integer NOT NULL DEFAULT 0;

-- What each process has declared, and since when it has done so without a break.
CREATE TABLE mainspring_declaration (
    worker text NOT NULL,
    start_id text NOT NULL,
    since integer NOT NULL,
    seen_at integer NOT NULL,
    declared text NOT NULL,
    PRIMARY KEY (worker, start_id)
) WITHOUT ROWID;
