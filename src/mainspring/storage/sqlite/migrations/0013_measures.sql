-- What became of deliveries, how long they waited and ran, added up by workers as they beat: a row per group, per span of
-- so many seconds that began at a time, and per what was counted. What has no time is in bin 0. What is of all groups of
-- a namespace is under its prefix alone, which is no group's name.
CREATE TABLE mainspring_measure (
    span integer NOT NULL,
    at integer NOT NULL,
    group_name text NOT NULL,
    what text NOT NULL,
    bin integer NOT NULL,
    count integer NOT NULL,
    PRIMARY KEY (span, group_name, at, what, bin)
) WITHOUT ROWID;
CREATE INDEX mainspring_measure_at ON mainspring_measure (span, at);
