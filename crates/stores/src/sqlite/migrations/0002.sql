-- Ids that callers chose: the newest task under each.
CREATE TABLE alias (
  key     BLOB PRIMARY KEY,
  task_no INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX alias_by_task ON alias (task_no);
