-- Keys that callers are known by. row: JSON, without the secret.
CREATE TABLE access (
  id  TEXT PRIMARY KEY,
  row TEXT NOT NULL
) STRICT, WITHOUT ROWID;
