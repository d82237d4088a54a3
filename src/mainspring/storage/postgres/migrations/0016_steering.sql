-- What dead letters died of, told apart: empty for those that were buried before. buried_at stands in the index so that a
-- cause is counted and dated without looking at its rows.
ALTER TABLE mainspring.dead ADD COLUMN fingerprint text COLLATE "C" NOT NULL DEFAULT '';
CREATE INDEX dead_cause ON mainspring.dead (group_name, fingerprint, seq, buried_at);

-- What a message has caused. Most messages are caused by none.
CREATE INDEX message_causation ON mainspring.message (causation_id) WHERE causation_id IS NOT NULL;

-- A worker that is to finish what it has and claim no more, since when, and who wants that.
ALTER TABLE mainspring.worker ADD COLUMN draining_at timestamptz, ADD COLUMN drained_by text;

-- Bytes as text in which bytes can be looked for: one character for each, ASCII letters small. Text has no NUL, so that is
-- written as chr(1), and cannot be told from it; what has none, which is nearly everything, pays for finding that out only.
CREATE FUNCTION mainspring.searchable(payload bytea) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT lower(
        CASE
            WHEN position(decode('00', 'hex') IN payload) = 0 THEN convert_from(payload, 'LATIN1')
            ELSE replace(
                convert_from(
                    decode(
                        replace(replace(encode(payload, 'escape'), E'\\\\', chr(2)), E'\\000', chr(1)), 'escape'
                    ),
                    'LATIN1'
                ),
                chr(2), E'\\'
            )
        END COLLATE "C"
    )
$$;
