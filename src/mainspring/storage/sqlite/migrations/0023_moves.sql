-- The moves of a fleet's databases to others, in the database that is the fleet's home. Elsewhere it is empty.
CREATE TABLE mainspring_move (
    id integer PRIMARY KEY AUTOINCREMENT,
    began_at integer NOT NULL,
    changed_at integer NOT NULL,
    epoch integer NOT NULL,
    name text NOT NULL,
    target text NOT NULL,
    origin text NOT NULL,
    place text NOT NULL,
    step text NOT NULL,
    counts text NOT NULL
);

-- One row while this database may not be written to, since its content moves or has moved: then each table that moves has
-- triggers as well.
CREATE TABLE mainspring_fence (
    sole integer NOT NULL PRIMARY KEY CHECK (sole),
    epoch integer NOT NULL,
    is_over integer NOT NULL,
    name text NOT NULL,
    target text NOT NULL
);
