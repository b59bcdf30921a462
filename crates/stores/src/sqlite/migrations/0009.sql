-- Texts that are found by their words, as they were given: the index beside them is made of these.
CREATE TABLE text (
  no    INTEGER PRIMARY KEY,
  shelf TEXT NOT NULL,
  id    TEXT NOT NULL,
  title TEXT NOT NULL,
  body  TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX text_by_id ON text (shelf, id);

-- Their words, cut and marked with their shelf by us: this tokenizer takes what is between two spaces. It keeps no texts.
CREATE VIRTUAL TABLE text_word USING fts5 (
  title, body, content = '', contentless_delete = 1, detail = column, tokenize = 'ascii'
);
