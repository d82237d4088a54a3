-- The moves of a fleet's databases to others, in the database that is the fleet's home. Elsewhere it is empty.
CREATE TABLE mainspring.move (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    began_at timestamptz NOT NULL,
    changed_at timestamptz NOT NULL,
    epoch bigint NOT NULL,
    name text COLLATE "C" NOT NULL,
    target text COLLATE "C" NOT NULL,
    origin text COLLATE "C" NOT NULL,
    place text COLLATE "C" NOT NULL,
    step text COLLATE "C" NOT NULL,
    counts text NOT NULL
);

-- One row while this database may not be written to, since its content moves or has moved: then each table that moves has a
-- trigger as well.
CREATE TABLE mainspring.fence (
    epoch bigint NOT NULL,
    is_over boolean NOT NULL,
    sole boolean PRIMARY KEY DEFAULT true CHECK (sole),
    name text COLLATE "C" NOT NULL,
    target text COLLATE "C" NOT NULL
);

-- The mover alone passes. A snapshot that is older than the fence does not see its row, and is refused all the same.
CREATE FUNCTION mainspring.refuse_write() RETURNS trigger
LANGUAGE plpgsql AS $function$
DECLARE
    raised mainspring.fence%ROWTYPE;
BEGIN
    SELECT f.* INTO raised FROM mainspring.fence AS f;
    IF raised.epoch::text = current_setting('fence.epoch', true) THEN
        RETURN NULL;
    END IF;
    RAISE EXCEPTION USING ERRCODE = 'MS002', MESSAGE = format(
        'database ''%s'' %s to ''%s'': nothing is stored',
        raised.name, CASE WHEN raised.is_over THEN 'has moved' ELSE 'moves' END, raised.target
    );
END
$function$;
