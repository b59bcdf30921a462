-- Chunks of live turns, in the order they came. Once its turn is over, or there are many of them, a task's rows are written
-- to the log as one; here they are dead then (first_seq is no longer above the log's last_seq) until the end is cut off.
CREATE TABLE tail (
  key       INTEGER PRIMARY KEY,
  task_no   INTEGER NOT NULL,
  first_seq INTEGER NOT NULL,
  last_seq  INTEGER NOT NULL,
  payload   BLOB NOT NULL
) STRICT;
