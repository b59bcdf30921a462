//! Texts and the index of their words. The rows have the texts; the words are in an FTS5 table beside them, under the numbers
//! of the rows. [`model::text`] defines words: the tokenizer only splits them at the spaces again.

use model::ports::Future;
use model::ports::store::{StoreError, TextSearch};
use model::{TextChange, TextPage, TextPlace, TextQuery};
use rusqlite::{Connection, OptionalExtension, params};

use super::SqliteStore;
use super::apply::CommitApplier;
use super::pool::Error;
use crate::words::{self, SearchTerm};

fn spaced(mark: &str, text: &str) -> String {
    words::of_text(mark, text).into_iter().collect::<Vec<_>>().join(" ")
}

impl CommitApplier<'_> {
    pub(super) fn change_text(&mut self, change: &TextChange) -> rusqlite::Result<()> {
        let (shelf, id) = change.about();
        let known = self.sql.text_find.query_row(params![shelf, id], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?, row.get::<_, String>(2)?))
        });
        let known = known.optional()?;
        match change {
            TextChange::Put { title, body, .. } => {
                let no = match known {
                    Some((_, had_title, had_body)) if had_title == *title && had_body == *body => return Ok(()),
                    Some((no, ..)) => {
                        self.sql.text_change.execute(params![no, title, body])?;
                        self.sql.text_unword.execute(params![no])?;
                        no
                    }
                    None => self.sql.text_add.insert(params![shelf, id, title, body])?,
                };
                let mark = words::mark(shelf);
                self.sql.text_word.execute(params![no, spaced(&mark, title), spaced(&mark, body)])?;
            }
            TextChange::Remove { .. } => {
                if let Some((no, ..)) = known {
                    self.sql.text_unword.execute(params![no])?;
                    self.sql.text_delete.execute(params![no])?;
                }
            }
        }
        Ok(())
    }
}

/// `"word" AND "longer" *`. Words hold nothing but letters and digits.
fn all_of(words: &[SearchTerm]) -> String {
    let one =
        |SearchTerm { word, open }: &SearchTerm| if *open { format!("\"{word}\" *") } else { format!("\"{word}\"") };
    words.iter().map(one).collect::<Vec<_>>().join(" AND ")
}

pub(super) fn search(db: &Connection, query: &TextQuery) -> Result<TextPage, Error> {
    // One page, one state of the file.
    let tx = db.unchecked_transaction()?;
    let asked = words::asked(&words::mark(&query.shelf), &query.words);
    if asked.is_empty() {
        return everything(&tx, query);
    }
    let all = all_of(&asked);
    let limit = query.limit as usize;
    let mut found = Vec::new();
    for elsewhere in [false, true] {
        let asks = if elsewhere { format!("({all}) NOT (title : ({all}))") } else { format!("title : ({all})") };
        let after = match &query.after {
            Some(after) if after.elsewhere && !elsewhere => continue,
            Some(after) if after.elsewhere == elsewhere => Some(&after.id),
            Some(_) | None => None,
        };
        let left = (limit + 1).saturating_sub(found.len());
        if left == 0 {
            break;
        }
        let mut statement = tx.prepare_cached(
            "SELECT text.id FROM text_word CROSS JOIN text ON text.no = text_word.rowid
             WHERE text_word MATCH ?1 AND text.shelf = ?2 AND (?3 IS NULL OR text.id > ?3) ORDER BY text.id LIMIT ?4",
        )?;
        let rows =
            statement.query_map(params![asks, query.shelf, after, left as i64], |row| row.get::<_, String>(0))?;
        for id in rows {
            found.push(TextPlace { elsewhere, id: id?.into() });
        }
    }
    let more = found.len() > limit;
    found.truncate(limit);
    let total = match (query.count, more || query.after.is_some()) {
        (false, _) => None,
        // The page has them all.
        (true, false) => Some(found.len() as u64),
        (true, true) => {
            let mut statement = tx.prepare_cached(
                "SELECT count(*) FROM text_word CROSS JOIN text ON text.no = text_word.rowid
                 WHERE text_word MATCH ?1 AND text.shelf = ?2",
            )?;
            Some(statement.query_row(params![all, query.shelf], |row| row.get::<_, i64>(0))? as u64)
        }
    };
    Ok(TextPage { found, more, total })
}

/// All of a shelf has all of no words in its title.
fn everything(tx: &Connection, query: &TextQuery) -> Result<TextPage, Error> {
    let total = if query.count {
        let mut statement = tx.prepare_cached("SELECT count(*) FROM text WHERE shelf = ?1")?;
        Some(statement.query_row(params![query.shelf], |row| row.get::<_, i64>(0))? as u64)
    } else {
        None
    };
    let mut page = TextPage { found: Vec::new(), more: false, total };
    let after = match &query.after {
        Some(after) if after.elsewhere => return Ok(page),
        Some(after) => Some(&after.id),
        None => None,
    };
    let limit = i64::from(query.limit) + 1;
    let mut add = |id: rusqlite::Result<String>| {
        page.found.push(TextPlace { elsewhere: false, id: id?.into() });
        Ok::<_, rusqlite::Error>(())
    };
    match after {
        None => {
            let mut statement = tx.prepare_cached("SELECT id FROM text WHERE shelf = ?1 ORDER BY id LIMIT ?2")?;
            statement.query_map(params![query.shelf, limit], |row| row.get(0))?.try_for_each(&mut add)?;
        }
        Some(after) => {
            let text = "SELECT id FROM text WHERE shelf = ?1 AND id > ?3 ORDER BY id LIMIT ?2";
            let mut statement = tx.prepare_cached(text)?;
            statement.query_map(params![query.shelf, limit, after], |row| row.get(0))?.try_for_each(&mut add)?;
        }
    }
    page.more = page.found.len() > query.limit as usize;
    page.found.truncate(query.limit as usize);
    Ok(page)
}

impl TextSearch for SqliteStore {
    fn search(&self, query: TextQuery) -> Future<'_, Result<TextPage, StoreError>> {
        self.read_aside(move |db| search(db, &query))
    }
}
