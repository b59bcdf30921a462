//! Texts for search: the texts are copied, and their words are computed again.

use tokio_postgres::types::Type;

use super::{ImportError, PostgresImport, Sums};
use crate::migrate::rows::TextRow;
use crate::postgres::columns::text_from;
use crate::postgres::connect::Sql;
use crate::postgres::texts::TextColumns;

/// With the words as they must be: what is not found by them is not there.
static FIND: Sql = Sql {
    text: "SELECT text.shelf, text.id, text.title, text.body
           FROM unnest($1::bytea[], $2::bytea[], $3::text[]) WITH ORDINALITY AS u (shelf, id, words, place)
           JOIN rialto.text ON text.shelf = u.shelf AND text.id = u.id AND text.words = u.words::tsvector
           ORDER BY u.place",
    types: &[Type::BYTEA_ARRAY, Type::BYTEA_ARRAY, Type::TEXT_ARRAY],
};

impl PostgresImport {
    pub(crate) async fn add_texts(&self, rows: &[TextRow], _sums: &mut Sums) -> Result<(), ImportError> {
        let mut columns = TextColumns::default();
        for row in rows {
            columns.push(&row.shelf, &row.id, &row.title, &row.body);
        }
        columns.write(&self.db).await?;
        Ok(())
    }

    pub(crate) async fn find_texts(&self, rows: &[TextRow]) -> Result<Vec<TextRow>, ImportError> {
        let shelves: Vec<&[u8]> = rows.iter().map(|row| row.shelf.as_bytes()).collect();
        let ids: Vec<&[u8]> = rows.iter().map(|row| row.id.as_bytes()).collect();
        let words: Vec<String> =
            rows.iter().map(|row| crate::postgres::texts::vector(&row.shelf, &row.title, &row.body)).collect();
        let mut texts = Vec::with_capacity(rows.len());
        for row in &self.db.query(&FIND, [&shelves, &ids, &words]).await? {
            let text = |column: usize| Ok::<_, ImportError>(text_from(row.try_get(column)?)?.to_owned());
            texts.push(TextRow { shelf: text(0)?, id: text(1)?, title: text(2)?, body: text(3)? });
        }
        Ok(texts)
    }
}
