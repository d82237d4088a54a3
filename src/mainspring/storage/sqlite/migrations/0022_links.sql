-- A worker's connections to brokers, as JSON. Null: it has none, or is of a release that does not report them.
ALTER TABLE mainspring_worker ADD COLUMN links TEXT;
