-- The fence of each replica's writer: generation is raised by every new connection of the writer, last_group is the number
-- of the last transaction that passed under it. Every transaction of the writer changes this row.
CREATE TABLE rialto.fence (
  replica_no bigint PRIMARY KEY,
  generation bigint NOT NULL,
  last_group bigint NOT NULL
) WITH (fillfactor = 10);
