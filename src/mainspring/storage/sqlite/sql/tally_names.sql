-- A loose scan: one step into the index per name, however many rows there are under it.
WITH RECURSIVE
ready(name) AS (
    SELECT min(group_name) FROM mainspring_delivery WHERE held_by IS NULL
    UNION ALL
    SELECT (SELECT min(group_name) FROM mainspring_delivery WHERE held_by IS NULL AND group_name > ready.name)
    FROM ready
    WHERE ready.name IS NOT NULL
),
held(name) AS (
    SELECT min(group_name) FROM mainspring_delivery WHERE held_by IS NOT NULL
    UNION ALL
    SELECT (SELECT min(group_name) FROM mainspring_delivery WHERE held_by IS NOT NULL AND group_name > held.name)
    FROM held
    WHERE held.name IS NOT NULL
),
dead(name) AS (
    SELECT min(group_name) FROM mainspring_dead
    UNION ALL
    SELECT (SELECT min(group_name) FROM mainspring_dead WHERE group_name > dead.name)
    FROM dead
    WHERE dead.name IS NOT NULL
)
SELECT name FROM ready WHERE name IS NOT NULL
UNION
SELECT name FROM held WHERE name IS NOT NULL
UNION
SELECT name FROM dead WHERE name IS NOT NULL
UNION
SELECT name FROM mainspring_groups
ORDER BY name
