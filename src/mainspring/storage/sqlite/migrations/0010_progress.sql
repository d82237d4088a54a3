-- What running handlers last said of themselves. A row counts while its delivery is held under the same epoch;
-- afterwards it is pruned.
CREATE TABLE mainspring_progress (
    seq integer NOT NULL PRIMARY KEY,
    epoch integer NOT NULL,
    at integer NOT NULL,
    said text NOT NULL
);
