-- Records of products. What is in a body only its product knows.
CREATE TABLE record (
  no      INTEGER PRIMARY KEY,
  kind    TEXT NOT NULL,
  key     TEXT NOT NULL,
  version INTEGER NOT NULL,
  body    BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX record_by_key ON record (kind, key);
-- The lists they are in, read from the highest rank down.
CREATE TABLE record_list (
  kind      TEXT NOT NULL,
  list      TEXT NOT NULL,
  rank      INTEGER NOT NULL,
  key       TEXT NOT NULL,
  record_no INTEGER NOT NULL,
  PRIMARY KEY (kind, list, rank, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX record_list_by_record ON record_list (record_no);

-- The journal: entries in their order, what each posts where, and what that made of the account.
CREATE TABLE account (
  name    TEXT PRIMARY KEY,
  balance INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE entry (
  no   INTEGER PRIMARY KEY,
  id   BLOB NOT NULL,
  at   INTEGER NOT NULL,
  body BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX entry_by_id ON entry (id);
CREATE TABLE posting (
  account  TEXT NOT NULL,
  entry_no INTEGER NOT NULL,
  place    INTEGER NOT NULL,
  amount   INTEGER NOT NULL,
  balance  INTEGER NOT NULL,
  PRIMARY KEY (account, entry_no)
) STRICT, WITHOUT ROWID;
CREATE INDEX posting_by_entry ON posting (entry_no, place);
