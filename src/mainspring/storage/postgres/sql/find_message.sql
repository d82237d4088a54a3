-- $1 message id. Columns in the order of model.views.MessageView, up to expires_at.
SELECT id, topic, key, payload, content_type, headers, correlation_id, causation_id, published_at, expires_at
FROM mainspring.message
WHERE id = $1
