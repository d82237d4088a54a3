-- How shared statements are written for SQLite.

-- spell: \$(\d+) => ?\1
-- spell: ::\w+(?:\[\])? =>
-- spell: \bmainspring\. => mainspring_

-- part: NOW(at)
{at}

-- part: EACH(list, row)
json_each({list}) AS {row}

-- part: CELL(row, place)
json_extract({row}.value, '$[{place}]')

-- part: BYTES(text)
CAST({text} AS BLOB)

-- part: LOCK_KEY()


-- part: UNLOCKED(row)


-- part: NEVER()
253402214400000000

-- part: MICROS(instant)
{instant}

-- part: INDEXED(index)
INDEXED BY mainspring_{index}

-- part: LOOKUP(table, row, column, value)
CROSS JOIN mainspring_{table} AS {row} ON {row}.{column} = {value}

-- part: LOOKUP_IF_ANY(table, row, column, value)
LEFT JOIN mainspring_{table} AS {row} ON {row}.{column} = {value}

-- part: PROGRESS()
LEFT JOIN mainspring_progress AS p ON p.seq = d.seq AND p.epoch = d.epoch AND d.held_by IS NOT NULL

-- part: GATHERED(value, hit)
json_group_array({value}) FILTER (WHERE {hit})

-- part: NEWEST_FIRST(seqs)
(SELECT value AS seq FROM json_each({seqs}) ORDER BY value DESC)

-- part: CONTAINS(text, sought)
instr(lower({text}), lower({sought})) > 0

-- part: PAYLOAD_CONTAINS(payload, sought)
instr(CAST(lower(CAST({payload} AS text)) AS blob), {sought}) > 0

-- part: LISTS(ids, id)
instr({ids}, {id}) > 0

-- part: LISTED(ids, place)
substr({ids}, ({place}) * 16 - 15, 16)

-- part: HOLDER_NAME(holder)
substr({holder}, 1, length({holder}) - 16)

-- part: NEWEST_OF_GROUP(row, id, group, index)
INDEXED BY mainspring_{index}
    WHERE {row}.group_name = {group} AND {row}.{id} < ?1
    ORDER BY {row}.{id} DESC

-- part: NEWEST_OF_CAUSE()
INDEXED BY mainspring_dead_cause
    WHERE d.group_name = ?3 AND d.fingerprint = ?9 AND d.seq < ?1
    ORDER BY d.seq DESC

-- part: NEWEST_OF_TOPIC()
INDEXED BY mainspring_parked_topic
    WHERE p.topic = ?3 AND p.seq < ?1
    ORDER BY p.seq DESC
