//! Catalogues in CSV (RFC 4180): cells in quotes may hold commas, line breaks, and quotes written twice.
//!
//! The `csv` crate accepts any input: with it, a quote that is never closed makes one cell of the rest of the file, and text
//! after a closing quote is a part of the cell. Both are mistakes in the file, so each row is compared with its source text.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use csv::StringRecord;
use serde_json::Value;

use super::rows::{MediaRow, ProductRow, VariantRow};
use super::{Catalogue, CatalogueError, Lines, Reader};

const COLUMNS: &[&str] = &[
    "id",
    "name",
    "slug",
    "subtitle",
    "description",
    "price",
    "price_minor",
    "stock",
    "sku",
    "variant_id",
    "tags",
    "media",
    "is_digital",
    "downloads",
];
/// The prefix of an option's column name.
const OPTION: &str = "option:";

/// Characters of a column's name that are compared and repeated in messages.
const SHORT: usize = 40;

impl Reader<'_> {
    pub(super) fn csv(&mut self, text: &str) -> Catalogue {
        let mut table = Table::new(text);
        let columns = match table.next() {
            Ok(Some(line)) => {
                let columns: Vec<String> = table.row.iter().map(|name| name.trim().to_owned()).collect();
                self.check_columns(line, &columns);
                columns
            }
            Ok(None) => {
                self.say(1, "there is nothing; the first line names the columns, such as id,name,price,stock");
                return Catalogue::default();
            }
            Err(CatalogueError { line, says }) => {
                self.say(line, says);
                return Catalogue::default();
            }
        };
        if !self.wrong.is_empty() {
            return Catalogue::default();
        }
        // Products in the order of their first rows.
        let mut order: Vec<(usize, ProductRow)> = Vec::new();
        let mut places: HashMap<String, usize> = HashMap::new();
        loop {
            let line = match table.next() {
                Ok(Some(line)) => line,
                Ok(None) => break,
                Err(CatalogueError { line, says }) => {
                    self.say(line, says);
                    break;
                }
            };
            let cells = &table.row;
            if cells.len() == 1 && cells[0].trim().is_empty() {
                continue;
            }
            if cells.len() != columns.len() {
                self.say(line, format!("it has {} cells, the first line has {}", cells.len(), columns.len()));
                continue;
            }
            match product_row(&columns, cells) {
                Ok(row) => match places.get(&row.id) {
                    Some(place) => order[*place].1.variants.extend(row.variants),
                    None if order.len() == self.most => {
                        self.say_too_many(line);
                        break;
                    }
                    None => {
                        places.insert(row.id.clone(), order.len());
                        order.push((line, row));
                    }
                },
                Err(says) => self.say(line, says),
            }
        }
        drop(places);
        let mut catalogue = Catalogue::default();
        for (line, mut row) in order {
            let named = format!("product {:?}", row.id);
            // One row without options is a product with one variant.
            if let [only] = &mut row.variants[..]
                && only.options.is_empty()
                && only.id.is_none()
            {
                (row.stock, row.sku) = (only.stock, only.sku.take());
                row.price = only.price.take().unwrap_or(Value::Null);
                row.variants.clear();
            } else if let Some(price) = row.variants.first().and_then(|first| first.price.clone()) {
                row.price = price;
            }
            match self.product(row) {
                Ok(counted) => catalogue.products.push(counted),
                Err(refusal) => self.say(line, format!("{named}: {refusal}")),
            }
        }
        catalogue
    }

    fn check_columns(&mut self, line: usize, columns: &[String]) {
        let has = |name: &str| columns.iter().any(|column| column == name);
        for (needed, or) in [("id", None), ("name", None), ("price", Some("price_minor"))] {
            if !has(needed) && !or.is_some_and(has) {
                self.say(line, format!("there is no column {needed:?}; the first line names the columns"));
            }
        }
        for (n, column) in columns.iter().enumerate() {
            if column.is_empty() || column == OPTION {
                self.say(line, format!("column {} has no name; give it one, or take it out", n + 1));
            } else if columns[..n].contains(column) {
                self.say(line, format!("the column {:?} is there twice", short(column)));
            } else if !COLUMNS.contains(&&**column) && !column.starts_with(OPTION) {
                let (column, near, known) = (short(column), nearest(column), COLUMNS.join(", "));
                let says =
                    format!("unknown column {column:?}; did you mean {near:?}? There are {known} and option:<name>");
                self.say(line, says);
            }
        }
    }
}

/// The column whose name looks most like this one.
fn nearest(name: &str) -> &'static str {
    let name: String = name.chars().take(SHORT).flat_map(char::to_lowercase).collect();
    let known = COLUMNS.iter().copied().chain(["option:<name>"]);
    known.min_by_key(|known| strsim::damerau_levenshtein(&name, known)).unwrap_or_default()
}

fn short(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(SHORT) {
        Some((end, _)) => format!("{}…", &text[..end]).into(),
        None => text.into(),
    }
}

/// A row of cells as a product with one variant.
fn product_row(columns: &[String], cells: &StringRecord) -> Result<ProductRow, String> {
    let cell = |name: &str| {
        let place = columns.iter().position(|column| column == name)?;
        cells.get(place).map(str::trim).filter(|cell| !cell.is_empty())
    };
    let owned = |name: &str| cell(name).map(str::to_owned);
    let several = |name: &str| -> Vec<String> {
        let parts = cell(name).unwrap_or_default().split('|').map(str::trim);
        parts.filter(|part| !part.is_empty()).map(str::to_owned).collect()
    };
    let price = match (cell("price"), cell("price_minor")) {
        (Some(price), None) => Some(Value::from(price)),
        (None, Some(minor)) => {
            let amount: i64 = minor.parse().map_err(|_| "price_minor must be a whole number".to_owned())?;
            Some(serde_json::json!({"amount": amount}))
        }
        (None, None) => None,
        (Some(_), Some(_)) => return Err("price and price_minor: one of them is enough".to_owned()),
    };
    let stock = match cell("stock") {
        None => None,
        Some(text) => Some(text.parse().map_err(|_| "stock must be a whole number, or nothing".to_owned())?),
    };
    let is_digital = match cell("is_digital").map(str::to_lowercase).as_deref() {
        None | Some("false" | "no" | "0") => false,
        Some("true" | "yes" | "1") => true,
        Some(_) => return Err("is_digital must be true or false".to_owned()),
    };
    let mut options = BTreeMap::new();
    for (column, value) in columns.iter().zip(cells) {
        if let Some(name) = column.strip_prefix(OPTION)
            && !value.trim().is_empty()
        {
            options.insert(name.trim().to_owned(), value.trim().to_owned());
        }
    }
    let variant = VariantRow { id: owned("variant_id"), options, price: price.clone(), stock, sku: owned("sku") };
    Ok(ProductRow {
        id: owned("id").ok_or("the id is missing")?,
        name: owned("name").unwrap_or_default(),
        slug: owned("slug"),
        subtitle: owned("subtitle").unwrap_or_default(),
        description: owned("description").unwrap_or_default(),
        price: price.unwrap_or(Value::Null),
        stock: None,
        sku: None,
        media: several("media").into_iter().map(MediaRow::Url).collect(),
        variants: vec![variant],
        tags: several("tags"),
        is_digital,
        downloads: several("downloads"),
    })
}

/// Reads the rows of a text.
struct Table<'a> {
    text: &'a str,
    reader: csv::Reader<&'a [u8]>,
    lines: Lines<'a>,
    /// The last row that was read.
    row: StringRecord,
}

impl<'a> Table<'a> {
    fn new(text: &'a str) -> Table<'a> {
        let reader = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(text.as_bytes());
        Table { text, reader, lines: Lines::new(text), row: StringRecord::new() }
    }

    fn place(&self) -> usize {
        usize::try_from(self.reader.position().byte()).unwrap_or(usize::MAX).min(self.text.len())
    }

    /// Reads the next row and returns its line; `None` at the end.
    fn next(&mut self) -> Result<Option<usize>, CatalogueError> {
        let begin = self.place();
        match self.reader.read_record(&mut self.row) {
            Ok(true) => {}
            Ok(false) => return Ok(None),
            Err(error) => return Err(CatalogueError { line: self.lines.at(begin), says: error.to_string() }),
        }
        // Skips empty lines, and the rest of the last line break.
        let written = self.text.get(begin..self.place()).unwrap_or_default().trim_start_matches(['\r', '\n']);
        let line = self.lines.of(written);
        match misquoted(written, &self.row) {
            None => Ok(Some(line)),
            Some(Misquoted::Open) => {
                Err(CatalogueError { line, says: "a quote is opened and never closed".to_owned() })
            }
            Some(Misquoted::After(rest)) => {
                let says =
                    "after a quoted cell comes a comma or the end of the line; a quote within it is written twice";
                Err(CatalogueError { line: self.lines.of(rest), says: says.to_owned() })
            }
        }
    }
}

enum Misquoted<'a> {
    /// The quote is not closed.
    Open,
    /// Text after the closing quote.
    After(&'a str),
}

/// The first misquoted cell of a row, if any.
fn misquoted<'a>(written: &'a str, row: &StringRecord) -> Option<Misquoted<'a>> {
    let mut rest = written;
    for cell in row {
        rest = match rest.strip_prefix('"') {
            None => rest.get(cell.len()..).unwrap_or_default(),
            Some(quoted) => {
                let twice = if cell.contains('"') { cell.replace('"', "\"\"").into() } else { Cow::Borrowed(cell) };
                match quoted.strip_prefix(&*twice) {
                    Some("") => return Some(Misquoted::Open),
                    Some(closed) if closed.starts_with('"') => &closed[1..],
                    Some(after) => return Some(Misquoted::After(after)),
                    None => {
                        let alike = quoted.bytes().zip(twice.bytes()).take_while(|(a, b)| a == b).count();
                        return Some(Misquoted::After(quoted.get(alike..).unwrap_or(quoted)));
                    }
                }
            }
        };
        rest = rest.strip_prefix(',').unwrap_or(rest);
    }
    None
}
