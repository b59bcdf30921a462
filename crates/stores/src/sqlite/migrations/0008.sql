-- What an entry posts is part of the entry: [[account, amount, balance after it, the account's entry before it], …]. Accounts
-- are known by number and say which entry was their last; from there a statement is read, entry by entry. So all that
-- is written of the journal is its end, and not a page for every account.
ALTER TABLE account RENAME TO account_before;
ALTER TABLE posting RENAME TO posting_before;
CREATE TABLE account (
  no         INTEGER PRIMARY KEY,
  name       TEXT NOT NULL UNIQUE,
  balance    INTEGER NOT NULL,
  last_entry INTEGER NOT NULL
) STRICT;
INSERT INTO account (name, balance, last_entry)
  SELECT name, balance, coalesce((SELECT max(entry_no) FROM posting_before WHERE account = name), 0)
  FROM account_before ORDER BY name;
-- Should the file not add up: what is posted is kept, whether there was an account or not.
INSERT INTO account (name, balance, last_entry)
  SELECT account, 0, max(entry_no) FROM posting_before
  WHERE account NOT IN (SELECT name FROM account_before) GROUP BY account;
CREATE TABLE posting_chained (
  entry_no INTEGER NOT NULL,
  place    INTEGER NOT NULL,
  posted   TEXT NOT NULL,
  PRIMARY KEY (entry_no, place)
) STRICT, WITHOUT ROWID;
INSERT INTO posting_chained (entry_no, place, posted)
  SELECT before.entry_no, before.place,
         json_array(account.no, before.amount, before.balance,
                    lag(before.entry_no, 1, 0) OVER (PARTITION BY before.account ORDER BY before.entry_no))
  FROM posting_before AS before JOIN account ON account.name = before.account;
ALTER TABLE entry ADD COLUMN postings TEXT NOT NULL DEFAULT '[]';
UPDATE entry SET postings = (
  SELECT json_group_array(json(posted) ORDER BY place) FROM posting_chained WHERE entry_no = entry.no
);
DROP TABLE posting_chained;
DROP TABLE posting_before;
DROP TABLE account_before;
-- For whoever looks at the file, and for what reads all of it.
CREATE VIEW posting (entry_no, place, account, amount, balance) AS
  SELECT entry.no, posted.key, account.name, posted.value ->> 1, posted.value ->> 2
  FROM entry CROSS JOIN json_each(entry.postings) AS posted CROSS JOIN account ON account.no = posted.value ->> 0;
