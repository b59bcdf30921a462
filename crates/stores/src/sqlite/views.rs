//! The numbers that stand for views in rows of tasks, remembered: a name keeps its number for ever.

use std::collections::HashMap;
use std::sync::Arc;

use model::View;
use parking_lot::RwLock;
use rusqlite::Connection;

use super::pool::Error;
use super::read::view_no;

/// More of them are looked up each time.
const MOST: usize = 10_000;

#[derive(Default)]
pub(super) struct ViewNumbers(RwLock<HashMap<Arc<str>, i64>>);

impl ViewNumbers {
    /// The numbers of those views that have one.
    pub(super) fn of(&self, db: &Connection, views: &[View]) -> Result<Vec<i64>, Error> {
        let mut numbers = Vec::with_capacity(views.len());
        for view in views {
            let known = self.0.read().get(&view.0).copied();
            numbers.extend(match known {
                Some(number) => Some(number),
                None => self.look_up(db, view)?,
            });
        }
        Ok(numbers)
    }

    fn look_up(&self, db: &Connection, view: &View) -> Result<Option<i64>, Error> {
        let found = view_no(db, &view.0)?;
        if let Some(number) = found {
            let mut known = self.0.write();
            if known.len() < MOST {
                known.insert(view.0.clone(), number);
            }
        }
        Ok(found)
    }
}
