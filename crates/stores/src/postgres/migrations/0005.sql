-- Raised whenever a replica takes over a config or sets it back: progress from before does not count any more.
ALTER TABLE rialto.push ADD COLUMN epoch bigint NOT NULL DEFAULT 0;

-- The lease by which a replica judges the others, and what it says of itself: JSON. Null of a release before.
ALTER TABLE rialto.replica ADD COLUMN lease_ms bigint, ADD COLUMN about bytea;
