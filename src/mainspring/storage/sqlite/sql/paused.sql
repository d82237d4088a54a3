SELECT name FROM mainspring_groups WHERE paused_at IS NOT NULL
