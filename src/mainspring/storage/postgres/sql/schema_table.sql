CREATE TABLE IF NOT EXISTS mainspring.migration (
    number integer PRIMARY KEY,
    name text NOT NULL,
    checksum text NOT NULL,
    breaking boolean NOT NULL,
    applied_at timestamptz NOT NULL
)
