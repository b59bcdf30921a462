-- Records of products. What is in a body only its product knows.
CREATE TABLE rialto.record (
  kind    bytea NOT NULL,
  key     bytea NOT NULL,
  version bigint NOT NULL,
  body    bytea NOT NULL,
  PRIMARY KEY (kind, key)
) WITH (fillfactor = 80);
-- The lists they are in, read from the highest rank down.
CREATE TABLE rialto.record_list (
  kind bytea NOT NULL,
  list bytea NOT NULL,
  rank bigint NOT NULL,
  key  bytea NOT NULL,
  PRIMARY KEY (kind, list, rank, key)
);
CREATE INDEX record_list_by_record ON rialto.record_list (kind, key);

-- The journal: entries, what each posts where, and what that made of the account. Numbers are drawn under the locks of the
-- accounts, so that for any one of them a later entry has a higher one.
CREATE TABLE rialto.account (
  name    bytea PRIMARY KEY,
  balance bigint NOT NULL
) WITH (fillfactor = 50);
CREATE SEQUENCE rialto.entry_no;
CREATE TABLE rialto.entry (
  no   bigint PRIMARY KEY,
  id   uuid NOT NULL UNIQUE,
  at   bigint NOT NULL,
  body bytea NOT NULL
);
CREATE TABLE rialto.posting (
  account  bytea NOT NULL,
  entry_no bigint NOT NULL,
  place    integer NOT NULL,
  amount   bigint NOT NULL,
  balance  bigint NOT NULL,
  PRIMARY KEY (account, entry_no)
);
CREATE INDEX posting_by_entry ON rialto.posting (entry_no, place);
