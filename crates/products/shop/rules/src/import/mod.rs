//! Reading of catalogues in JSON or CSV. All errors are reported at once, each with its line; a catalogue with errors is not
//! imported.
//!
//! JSON is an array of products, or an object with `products` and `coupons`. A row of CSV is a variant; rows with one `id`
//! are one product, and columns named `option:Size` are its options. Prices are decimal texts (`"19.90"`) or amounts of
//! the smallest unit (`{"amount": 1990}`, column `price_minor`): a bare JSON number could be either, and is refused.
//!
//! `json` and `table` read the two formats, `rows` makes products and coupons of their rows.

mod json;
mod rows;
mod table;

use std::fmt;

use model::Time;

use crate::{Coupon, Product, Site};

/// Most products of one import.
pub const MAX_PRODUCTS: usize = 1_000_000;
/// Most errors that are reported.
pub const MAX_FAULTS: usize = 100;

/// An error in a catalogue, and its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CatalogueError {
    /// Line number, from 1.
    pub line: usize,
    pub says: String,
}

impl fmt::Display for CatalogueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.says)
    }
}

/// A catalogue without errors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Catalogue {
    pub products: Vec<Counted>,
    pub coupons: Vec<Coupon>,
}

/// A product and the new stock of each variant, in their order; `None` leaves the stock unchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counted {
    pub product: Product,
    pub stock: Vec<Option<u64>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CatalogueFormat {
    Json,
    Csv,
}

/// Reads a catalogue of a site.
pub fn read(site: &Site, format: CatalogueFormat, text: &str, now: Time) -> Result<Catalogue, Vec<CatalogueError>> {
    Reader { site, now, most: MAX_PRODUCTS, wrong: Vec::new() }.read(format, text)
}

struct Reader<'a> {
    site: &'a Site,
    now: Time,
    /// Most products that are accepted.
    most: usize,
    wrong: Vec<CatalogueError>,
}

impl Reader<'_> {
    fn read(mut self, format: CatalogueFormat, text: &str) -> Result<Catalogue, Vec<CatalogueError>> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let catalogue = match format {
            CatalogueFormat::Json => self.json(text),
            CatalogueFormat::Csv => self.csv(text),
        };
        if self.wrong.is_empty() { Ok(catalogue) } else { Err(self.wrong) }
    }

    fn say(&mut self, line: usize, says: impl fmt::Display) {
        if self.wrong.len() < MAX_FAULTS {
            self.wrong.push(CatalogueError { line, says: says.to_string() });
        }
    }

    fn say_too_many(&mut self, line: usize) {
        self.say(line, format!("more than {} products; import them in parts", self.most));
    }
}

/// Line numbers of a text, counted while it is read.
struct Lines<'a> {
    text: &'a str,
    at: usize,
    line: usize,
}

impl<'a> Lines<'a> {
    fn new(text: &'a str) -> Lines<'a> {
        Lines { text, at: 0, line: 1 }
    }

    /// The line of the byte at `offset`. It ends with LF, with CR, or with both.
    fn at(&mut self, offset: usize) -> usize {
        if offset < self.at {
            (self.at, self.line) = (0, 1);
        }
        let bytes = self.text.as_bytes();
        let ends = |at: usize| bytes[at] == b'\n' || (bytes[at] == b'\r' && bytes.get(at + 1) != Some(&b'\n'));
        let offset = offset.min(bytes.len());
        self.line += (self.at..offset).filter(|at| ends(*at)).count();
        self.at = offset;
        self.line
    }

    /// The line where a piece of the text begins.
    fn of(&mut self, piece: &str) -> usize {
        self.at((piece.as_ptr() as usize).saturating_sub(self.text.as_ptr() as usize))
    }
}

#[cfg(test)]
mod tests;
