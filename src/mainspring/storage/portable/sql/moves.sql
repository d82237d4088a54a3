-- Moves of a fleet's databases, in its home; and the fence of a database whose content moves.

-- name: fence_lift
-- $1 epoch. Returns one row if the fence is this mover's.
DELETE FROM mainspring.fence WHERE epoch = $1 RETURNING epoch

-- name: fence_put
-- $1 epoch, $2 whether the move is over, $3 name, $4 target. An older mover changes nothing.
INSERT INTO mainspring.fence AS f (sole, epoch, is_over, name, target)
VALUES (true, $1, $2, $3, $4)
ON CONFLICT (sole) DO UPDATE SET epoch = excluded.epoch, is_over = excluded.is_over
WHERE f.epoch <= excluded.epoch AND f.name = excluded.name AND f.target = excluded.target
RETURNING epoch

-- name: fence_read
SELECT name, target, epoch, is_over FROM mainspring.fence

-- name: lease_epochs_back
UPDATE mainspring.lease SET epoch = -epoch WHERE epoch < 0

-- name: lease_epochs_away
-- Under the fence none has a lease: not even a transaction that only confirms one, and writes nothing of ours (invariant 16).
-- The epoch is a key, so that it also fails for a snapshot that is older.
UPDATE mainspring.lease SET epoch = -epoch WHERE epoch > 0

-- name: move_begin
-- $1 name, $2 target, $3 origin, $4 place, $5 epoch, $6 now. Returns its id.
INSERT INTO mainspring.move (name, target, origin, place, step, counts, epoch, began_at, changed_at)
VALUES ($1, $2, $3, $4, 'prepare', '{}', $5, NOW($6), NOW($6))
RETURNING id

-- name: move_browse
-- Columns in the order of model.move.Move.
SELECT id, name, target, step, began_at, changed_at, epoch, origin, place, counts FROM mainspring.move ORDER BY id

-- name: move_forget
-- $1 id, $2 epoch.
DELETE FROM mainspring.move WHERE id = $1 AND epoch = $2

-- name: move_note
-- $1 id, $2 epoch, $3 step, $4 counts, $5 now. Returns one row unless a later mover has it.
UPDATE mainspring.move
SET epoch = $2, step = $3, counts = $4, changed_at = NOW($5)
WHERE id = $1 AND epoch <= $2
RETURNING id
