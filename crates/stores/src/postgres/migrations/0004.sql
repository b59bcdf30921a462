-- Texts that are found by their words, as they were given, and their words, cut and marked with their shelf by us.
CREATE TABLE rialto.text (
  shelf bytea NOT NULL,
  id    bytea NOT NULL,
  title bytea NOT NULL,
  body  bytea NOT NULL,
  words tsvector NOT NULL,
  PRIMARY KEY (shelf, id)
);
-- A search finds what was committed, and costs the same before and after the index is tidied.
CREATE INDEX text_by_word ON rialto.text USING gin (words) WITH (fastupdate = off);
