-- Push configs and how far their deliveries have come. task: the task's id once more, because walks are in its order.
-- made_no: the order in which those of one task were made. spec: sealed. edition: 64 bits without a sign.
CREATE TABLE push (
  task_no       INTEGER NOT NULL,
  id            TEXT NOT NULL,
  made_no       INTEGER NOT NULL,
  task          BLOB NOT NULL,
  edition       INTEGER NOT NULL,
  state         INTEGER NOT NULL,
  next          INTEGER NOT NULL,
  due           INTEGER NOT NULL,
  attempts      INTEGER NOT NULL,
  failing_since INTEGER,
  delivered     INTEGER NOT NULL,
  delivered_at  INTEGER,
  made_at       INTEGER NOT NULL,
  trouble       TEXT,
  spec          BLOB NOT NULL,
  PRIMARY KEY (task_no, id)
) STRICT, WITHOUT ROWID;
-- state 1 is active, 3 is dead. Most are done (2) and wait in no index for their task to go.
CREATE INDEX push_active ON push (task, id) WHERE state = 1;
CREATE INDEX push_dead ON push (task, id) WHERE state = 3;
