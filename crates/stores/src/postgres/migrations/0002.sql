-- What is being brought here from another store, and how far that has come: phase, and the key of the last row within it. One
-- row at most, which stays when it is done. Until it is finished, nobody opens the store.
CREATE TABLE rialto.migration (
  one         boolean PRIMARY KEY DEFAULT true CHECK (one),
  source      bytea NOT NULL,
  phase       smallint NOT NULL,
  numbers     bigint[],
  bytes       bytea,
  began_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
  finished_at timestamptz
);
