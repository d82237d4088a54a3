-- ?1 place, ?2 id, ?3 topic, ?4 payload: a draft whose id is known. Answers its place if it is known as another message,
-- and the topic of that.
WITH draft (place, id, topic, payload) AS (
VALUES (?1, ?2, ?3, ?4)
)
SELECT draft.place, known.topic
FROM draft
INNER JOIN mainspring_message AS known ON known.id = draft.id
WHERE known.topic <> draft.topic OR known.payload <> draft.payload
