-- Raised whenever deliveries of a config are taken over or set back: progress from before does not count any more.
ALTER TABLE push ADD COLUMN epoch INTEGER NOT NULL DEFAULT 0;
