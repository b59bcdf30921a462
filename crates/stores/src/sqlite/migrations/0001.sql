-- The first schema. See crates/stores/src/sqlite/mod.rs for the reasons.

-- One row: how often the store was opened (the epoch), and a number the writer counts up to see whether writing works.
CREATE TABLE meta (
  one   INTEGER PRIMARY KEY CHECK (one = 1),
  epoch INTEGER NOT NULL,
  probe INTEGER NOT NULL
) STRICT;
INSERT INTO meta (one, epoch, probe) VALUES (1, 0, 0);

-- Views, tenants and agents by number.
CREATE TABLE name (
  no   INTEGER PRIMARY KEY,
  text TEXT NOT NULL UNIQUE
) STRICT;

-- A task without its events. Its length is that of its log. context: a UUID as 16 bytes, anything else as text.
-- views: their numbers, 4 bytes little endian each.
CREATE TABLE task (
  no        INTEGER PRIMARY KEY,
  id        BLOB NOT NULL,
  context   ANY NOT NULL,
  tenant_no INTEGER NOT NULL,
  agent_no  INTEGER NOT NULL,
  views     BLOB NOT NULL,
  epoch     INTEGER NOT NULL,
  state     INTEGER NOT NULL,
  status_at INTEGER NOT NULL,
  listed    INTEGER NOT NULL,
  running   INTEGER NOT NULL,
  settled   INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX task_by_id ON task (id);
CREATE INDEX task_running ON task (id) WHERE running = 1;
CREATE INDEX task_settled ON task (status_at) WHERE settled = 1;

-- One row per commit and task. key = task.no * 2^26 + the first event's sequence number.
CREATE TABLE log (
  key      INTEGER PRIMARY KEY,
  last_seq INTEGER NOT NULL,
  payload  BLOB NOT NULL
) STRICT;

-- Lists: one row per view a listed task is in, by state, and again by context.
CREATE TABLE listing (
  view_no   INTEGER NOT NULL,
  state     INTEGER NOT NULL,
  status_at INTEGER NOT NULL,
  task_no   INTEGER NOT NULL,
  PRIMARY KEY (view_no, state, status_at, task_no)
) STRICT, WITHOUT ROWID;
CREATE TABLE listing_by_context (
  view_no   INTEGER NOT NULL,
  context   ANY NOT NULL,
  status_at INTEGER NOT NULL,
  task_no   INTEGER NOT NULL,
  state     INTEGER NOT NULL,
  PRIMARY KEY (view_no, context, status_at, task_no)
) STRICT, WITHOUT ROWID;

-- How many. view_no 0 is the whole store. kind: 0 all, 1 to 8 a state's code, from 16 on see counters.rs.
CREATE TABLE counter (
  view_no INTEGER NOT NULL,
  kind    INTEGER NOT NULL,
  n       INTEGER NOT NULL,
  PRIMARY KEY (view_no, kind)
) STRICT, WITHOUT ROWID;
-- Only contexts with many tasks have a row here; the others are counted in listing_by_context.
CREATE TABLE context_counter (
  view_no INTEGER NOT NULL,
  context ANY NOT NULL,
  n       INTEGER NOT NULL,
  PRIMARY KEY (view_no, context)
) STRICT, WITHOUT ROWID;

-- Idempotency keys by the hour of their use, so that inserts and purges stay at the ends.
CREATE TABLE idempotency (
  hour INTEGER NOT NULL,
  key  BLOB NOT NULL,
  body BLOB NOT NULL,
  task BLOB NOT NULL,
  seq  INTEGER NOT NULL,
  at   INTEGER NOT NULL,
  PRIMARY KEY (hour, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE timer (
  task_no INTEGER NOT NULL,
  kind    INTEGER NOT NULL,
  due     INTEGER NOT NULL,
  PRIMARY KEY (task_no, kind)
) STRICT, WITHOUT ROWID;
CREATE INDEX timer_due ON timer (due, task_no, kind);

-- Large parts, once per tenant and content.
CREATE TABLE blob (
  no     INTEGER PRIMARY KEY,
  tenant TEXT NOT NULL,
  hash   BLOB NOT NULL,
  bytes  BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX blob_by_hash ON blob (tenant, hash);
CREATE TABLE blob_use (
  task_no INTEGER NOT NULL,
  blob_no INTEGER NOT NULL,
  PRIMARY KEY (task_no, blob_no)
) STRICT, WITHOUT ROWID;
CREATE INDEX blob_use_by_blob ON blob_use (blob_no);
