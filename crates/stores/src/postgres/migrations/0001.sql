-- The first schema. See crates/stores/src/postgres/mod.rs for the reasons. Whatever a caller may have chosen is bytea:
-- text cannot hold every string, and its order depends on the database.

-- Views, tenants and agents by number. Never removed.
CREATE TABLE rialto.name (
  no   integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  text bytea NOT NULL UNIQUE
);

-- Who shares the store. beat_at is the database's clock. A number is never used again, a slot is.
CREATE SEQUENCE rialto.replica_no;
CREATE TABLE rialto.replica (
  no       bigint PRIMARY KEY,
  slot     integer NOT NULL,
  beat_at  timestamptz NOT NULL,
  has_left boolean NOT NULL
) WITH (fillfactor = 50);

-- What all replicas must agree on, such as which key push configs are sealed with: whoever comes first says.
CREATE TABLE rialto.note (
  name  text PRIMARY KEY,
  value text NOT NULL
);

-- Numbers of tasks are drawn a thousand at a time.
CREATE SEQUENCE rialto.task_no INCREMENT BY 1024;

-- A task without its events. context: a tag, then a UUID's 16 bytes (0) or text (1). views: their numbers, 4 bytes little
-- endian each. holder: the replica that appended last with an epoch. Chunks change seq only, in place.
CREATE TABLE rialto.task (
  no        bigint NOT NULL,
  id        uuid PRIMARY KEY,
  seq       bigint NOT NULL,
  epoch     bigint NOT NULL,
  holder    bigint NOT NULL,
  status_at bigint NOT NULL,
  tenant_no integer NOT NULL,
  agent_no  integer NOT NULL,
  state     smallint NOT NULL,
  listed    boolean NOT NULL,
  running   boolean NOT NULL,
  settled   boolean NOT NULL,
  context   bytea NOT NULL,
  views     bytea NOT NULL
) WITH (fillfactor = 80);
CREATE INDEX task_running ON rialto.task (id) WHERE running;
CREATE INDEX task_settled ON rialto.task (status_at, no) WHERE settled;

-- One row per commit and task. epoch: the append's, null for outside events. What one sees of a log is all of its rows in
-- order; a second row at one place cannot be.
CREATE TABLE rialto.log (
  task_no   bigint NOT NULL,
  first_seq bigint NOT NULL,
  last_seq  bigint NOT NULL,
  epoch     bigint,
  payload   bytea NOT NULL,
  PRIMARY KEY (task_no, first_seq)
);

-- Lists: one row per view a listed task is in, found by state, and again by context.
CREATE TABLE rialto.listing (
  status_at bigint NOT NULL,
  task_no   bigint NOT NULL,
  view_no   integer NOT NULL,
  state     smallint NOT NULL,
  task      uuid NOT NULL,
  context   bytea NOT NULL,
  PRIMARY KEY (view_no, state, status_at, task_no)
);
CREATE INDEX listing_by_context ON rialto.listing (view_no, context, status_at, task_no);

-- How many, by replica slot: the sum over the slots counts. view_no 0 is the whole store. kind: 0 all, 1 to 8 a state's
-- code, from 16 on see counters.rs.
CREATE TABLE rialto.counter (
  view_no integer NOT NULL,
  kind    smallint NOT NULL,
  slot    integer NOT NULL,
  n       bigint NOT NULL,
  PRIMARY KEY (view_no, kind, slot)
) WITH (fillfactor = 50);

-- An idempotency key with all of its uses, one per hour at most, oldest first: body 32, task 16, seq 8, at 8 bytes. hour:
-- that of the oldest. One row, because the key is what two replicas must not both take.
CREATE TABLE rialto.idempotency (
  key  bytea PRIMARY KEY,
  hour bigint NOT NULL,
  uses bytea NOT NULL
);
CREATE INDEX idempotency_hour ON rialto.idempotency (hour);

-- Ids that callers chose: the newest task under each.
CREATE TABLE rialto.alias (
  key  bytea PRIMARY KEY,
  task uuid NOT NULL
);
CREATE INDEX alias_by_task ON rialto.alias (task);

-- Keys that callers are known by. row: JSON, without the secret.
CREATE TABLE rialto.access (
  id  bytea PRIMARY KEY,
  row bytea NOT NULL
);

CREATE TABLE rialto.timer (
  task    uuid NOT NULL,
  kind    smallint NOT NULL,
  task_no bigint NOT NULL,
  due     bigint NOT NULL,
  PRIMARY KEY (task, kind)
);
CREATE INDEX timer_due ON rialto.timer (due, task_no, kind);

-- Large parts, once per tenant and content.
CREATE TABLE rialto.blob (
  tenant_no integer NOT NULL,
  hash      bytea NOT NULL,
  size      bigint NOT NULL,
  bytes     bytea NOT NULL,
  PRIMARY KEY (tenant_no, hash)
);
ALTER TABLE rialto.blob ALTER COLUMN bytes SET STORAGE EXTERNAL;
CREATE TABLE rialto.blob_use (
  task      uuid NOT NULL,
  tenant_no integer NOT NULL,
  hash      bytea NOT NULL,
  PRIMARY KEY (task, tenant_no, hash)
);
CREATE INDEX blob_use_by_blob ON rialto.blob_use (tenant_no, hash);

-- Push configs and how far their deliveries have come. made_no: the order in which those of one task were made. spec:
-- sealed. edition: 64 bits without a sign. deliverer: the replica that put or adopted it last.
CREATE TABLE rialto.push (
  task          uuid NOT NULL,
  id            bytea NOT NULL,
  made_no       bigint NOT NULL,
  edition       bigint NOT NULL,
  deliverer     bigint NOT NULL,
  state         smallint NOT NULL,
  next          bigint NOT NULL,
  due           bigint NOT NULL,
  attempts      bigint NOT NULL,
  failing_since bigint,
  delivered     bigint NOT NULL,
  delivered_at  bigint,
  made_at       bigint NOT NULL,
  trouble       bytea,
  spec          bytea NOT NULL,
  PRIMARY KEY (task, id)
) WITH (fillfactor = 80);
-- state 1 is active, 3 is dead. Most are done (2) and are found through their task.
CREATE INDEX push_active ON rialto.push (task, id) WHERE state = 1;
CREATE INDEX push_dead ON rialto.push (task, id) WHERE state = 3;
