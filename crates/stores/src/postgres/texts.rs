//! Texts and the index of their words. Words of titles have weight A and the others D; [`model::text`] defines words, so that
//! nothing here is left to a dictionary.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::ports::Future;
use model::ports::store::{Commit, StoreError, TextSearch};
use model::{TextChange, TextPage, TextPlace, TextQuery};
use tokio::join;
use tokio_postgres::Error;
use tokio_postgres::types::Type;

use super::PostgresStore;
use super::columns::text_from;
use super::connect::{Conn, Sql, run};
use super::trouble::Failure;
use crate::words::{self, SearchTerm};

pub(super) static PUT: Sql = Sql {
    text: "INSERT INTO rialto.text (shelf, id, title, body, words)
           SELECT shelf, id, title, body, words::tsvector
           FROM unnest($1::bytea[], $2::bytea[], $3::bytea[], $4::bytea[], $5::text[]) AS u (shelf, id, title, body, words)
           ORDER BY shelf, id
           ON CONFLICT (shelf, id) DO UPDATE SET title = excluded.title, body = excluded.body, words = excluded.words",
    types: &[Type::BYTEA_ARRAY, Type::BYTEA_ARRAY, Type::BYTEA_ARRAY, Type::BYTEA_ARRAY, Type::TEXT_ARRAY],
};
pub(super) static DROP: Sql = Sql {
    text: "DELETE FROM rialto.text USING unnest($1::bytea[], $2::bytea[]) AS u (shelf, id)
           WHERE text.shelf = u.shelf AND text.id = u.id",
    types: &[Type::BYTEA_ARRAY, Type::BYTEA_ARRAY],
};

/// The words of a text as the database reads them: `'word':1A,2`. Words hold nothing but letters and digits.
pub(super) fn vector(shelf: &str, title: &str, body: &str) -> String {
    let mark = words::mark(shelf);
    let mut places: BTreeMap<String, &'static str> = BTreeMap::new();
    for word in words::of_text(&mark, title) {
        places.insert(word, "1A");
    }
    for word in words::of_text(&mark, body) {
        places.entry(word).and_modify(|places| *places = "1A,2").or_insert("2");
    }
    places.iter().map(|(word, places)| format!("'{word}':{places}")).collect::<Vec<_>>().join(" ")
}

/// The texts of a group, as the last commit leaves them.
#[derive(Default)]
pub(super) struct Texts<'a>(BTreeMap<(&'a str, &'a str), Option<(&'a str, &'a str)>>);

impl<'a> Texts<'a> {
    pub(super) fn take(&mut self, commit: &'a Commit) {
        for change in &commit.texts {
            let (shelf, id) = change.about();
            let text = match change {
                TextChange::Put { title, body, .. } => Some((title.as_str(), body.as_str())),
                TextChange::Remove { .. } => None,
            };
            self.0.insert((shelf, id), text);
        }
    }

    pub(super) fn is_blank(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) async fn write(&self, db: &Conn) -> Result<(), Error> {
        let mut put = TextColumns::default();
        let (mut shelves, mut ids): (Vec<&[u8]>, Vec<&[u8]>) = (Vec::new(), Vec::new());
        for ((shelf, id), text) in &self.0 {
            match text {
                Some((title, body)) => put.push(shelf, id, title, body),
                None => {
                    shelves.push(shelf.as_bytes());
                    ids.push(id.as_bytes());
                }
            }
        }
        let (put, dropped) = join!(
            biased;
            put.write(db),
            run(!ids.is_empty(), db.execute(&DROP, [&shelves, &ids])),
        );
        put.and(dropped)
    }
}

#[derive(Default)]
pub(super) struct TextColumns<'a> {
    shelves: Vec<&'a [u8]>,
    ids: Vec<&'a [u8]>,
    titles: Vec<&'a [u8]>,
    bodies: Vec<&'a [u8]>,
    words: Vec<String>,
}

impl<'a> TextColumns<'a> {
    pub(super) fn push(&mut self, shelf: &'a str, id: &'a str, title: &'a str, body: &'a str) {
        self.shelves.push(shelf.as_bytes());
        self.ids.push(id.as_bytes());
        self.titles.push(title.as_bytes());
        self.bodies.push(body.as_bytes());
        self.words.push(vector(shelf, title, body));
    }

    pub(super) async fn write(&self, db: &Conn) -> Result<(), Error> {
        let TextColumns { shelves, ids, titles, bodies, words } = self;
        run(!ids.is_empty(), db.execute(&PUT, [shelves, ids, titles, bodies, words])).await
    }
}

/// One statement, one state of the database: a row for each that was found, and in the last column how many, if asked. What
/// is found is found by its words first: no plan may go through a shelf.
static SEARCH: Sql = Sql {
    text: "WITH found AS MATERIALIZED (
             SELECT shelf, id, words FROM rialto.text WHERE words @@ $2::text::tsquery
           ), placed AS MATERIALIZED (
             SELECT id, NOT (words @@ $3::text::tsquery) AS elsewhere FROM found WHERE shelf = $1
           ), page AS (
             SELECT elsewhere, id FROM placed WHERE $6 OR (elsewhere, id) > ($7, $8)
             ORDER BY elsewhere, id LIMIT $4
           ), total AS (
             SELECT CASE WHEN $5 THEN (SELECT count(*) FROM placed) END AS n
           )
           SELECT page.elsewhere, page.id, total.n FROM total LEFT JOIN page ON true ORDER BY page.elsewhere, page.id",
    types: &[Type::BYTEA, Type::TEXT, Type::TEXT, Type::INT8, Type::BOOL, Type::BOOL, Type::BOOL, Type::BYTEA],
};
static EVERYTHING: Sql = Sql {
    text: "WITH page AS (
             SELECT false AS elsewhere, id FROM rialto.text WHERE shelf = $1 AND NOT $5 AND id >= $4 AND ($6 OR id <> $4)
             ORDER BY id LIMIT $2
           ), total AS (
             SELECT CASE WHEN $3 THEN (SELECT count(*) FROM rialto.text WHERE shelf = $1) END AS n
           )
           SELECT page.elsewhere, page.id, total.n FROM total LEFT JOIN page ON true ORDER BY page.elsewhere, page.id",
    types: &[Type::BYTEA, Type::INT8, Type::BOOL, Type::BYTEA, Type::BOOL, Type::BOOL],
};

/// `'word' & 'longer':*`, or of titles alone, `'word':A & 'longer':*A`.
fn all_of(words: &[SearchTerm], weight: &str) -> String {
    let one = |SearchTerm { word, open }: &SearchTerm| match (*open, weight) {
        (true, weight) => format!("'{word}':*{weight}"),
        (false, "") => format!("'{word}'"),
        (false, weight) => format!("'{word}':{weight}"),
    };
    words.iter().map(one).collect::<Vec<_>>().join(" & ")
}

pub(super) async fn search(db: &Conn, query: &TextQuery) -> Result<TextPage, Failure> {
    let asked = words::asked(&words::mark(&query.shelf), &query.words);
    let (shelf, limit) = (query.shelf.as_bytes(), i64::from(query.limit) + 1);
    let after = query.after.as_ref();
    let (elsewhere, id) = after.map_or((false, &b""[..]), |after| (after.elsewhere, after.id.as_bytes()));
    let rows = if asked.is_empty() {
        db.query(&EVERYTHING, [&shelf, &limit, &query.count, &id, &elsewhere, &after.is_none()]).await?
    } else {
        let (all, titled) = (all_of(&asked, ""), all_of(&asked, "A"));
        db.query(&SEARCH, [&shelf, &all, &titled, &limit, &query.count, &after.is_none(), &elsewhere, &id]).await?
    };
    let mut page = TextPage::default();
    for row in &rows {
        page.total = row.try_get::<_, Option<i64>>(2)?.map(|total| total as u64);
        // The total has a row of its own where the page has none.
        let Some(id) = row.try_get::<_, Option<&[u8]>>(1)? else { continue };
        page.found.push(TextPlace { elsewhere: row.try_get(0)?, id: text_from(id)?.into() });
    }
    page.more = page.found.len() > query.limit as usize;
    page.found.truncate(query.limit as usize);
    Ok(page)
}

impl TextSearch for PostgresStore {
    fn search(&self, query: TextQuery) -> Future<'_, Result<TextPage, StoreError>> {
        let query = Arc::new(query);
        self.read(move |db| {
            let query = query.clone();
            async move { search(&db, &query).await }
        })
    }
}
