-- Lists of records are known by number, since their names are long and a record is in several. Which ones it is in, a
-- record says itself: [[list, rank], …].
ALTER TABLE record_list RENAME TO record_list_before;
CREATE TABLE record_list (
  no   INTEGER PRIMARY KEY,
  kind TEXT NOT NULL,
  name TEXT NOT NULL,
  UNIQUE (kind, name)
) STRICT;
INSERT INTO record_list (kind, name) SELECT DISTINCT kind, list FROM record_list_before;
-- The places in them, read from the highest rank down.
CREATE TABLE record_place (
  list_no   INTEGER NOT NULL,
  rank      INTEGER NOT NULL,
  key       TEXT NOT NULL,
  record_no INTEGER NOT NULL,
  PRIMARY KEY (list_no, rank, key)
) STRICT, WITHOUT ROWID;
INSERT INTO record_place (list_no, rank, key, record_no)
  SELECT list.no, before.rank, before.key, before.record_no
  FROM record_list_before AS before JOIN record_list AS list ON list.kind = before.kind AND list.name = before.list;
ALTER TABLE record ADD COLUMN lists TEXT NOT NULL DEFAULT '[]';
UPDATE record SET lists = (
  SELECT json_group_array(json_array(list.no, before.rank))
  FROM record_list_before AS before JOIN record_list AS list ON list.kind = before.kind AND list.name = before.list
  WHERE before.record_no = record.no
);
DROP TABLE record_list_before;
