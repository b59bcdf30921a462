//! Compares two stores: the number of rows of every kind and each row; logs, which have no gaps, are equal byte by byte and
//! fold to the same task; counters, which match their rows; and the journal, whose balances are the sums of its amounts.

use std::fmt;

use model::{Event, Seq, Task, TransitionError, stored};
use sha2::{Digest, Sha256};

use super::kinds::{Logs, NAMES, RowKind, each_kind};
use super::rows::{BatchLimits, LogRow, Odd, RowPosition};
use super::{COUNT, Error, MigrationStep, read, write};
use crate::postgres::import::PostgresImport;
use crate::sqlite::export::Export;

/// Differences of each kind that are described one by one; the rest is counted.
const SHOWN: usize = 5;

/// The result of a comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    pub lines: Vec<SummaryLine>,
    /// Over the hashes of all logs, task by task, on either side.
    pub logs_from: String,
    pub logs_to: String,
    /// Faults of the source that the target has too. They are no differences.
    pub remarks: Vec<String>,
    /// The first few differences, in words.
    pub differences: Vec<String>,
}

/// The comparison of one kind of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SummaryLine {
    pub what: &'static str,
    pub from: u64,
    pub to: u64,
    /// How many are missing or different.
    pub different: u64,
}

impl SummaryLine {
    pub fn is_same(&self) -> bool {
        self.from == self.to && self.different == 0
    }
}

impl Summary {
    pub fn is_same(&self) -> bool {
        self.lines.iter().all(SummaryLine::is_same) && self.logs_from == self.logs_to && self.differences.is_empty()
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:18} {:>12} {:>12}", "", "SOURCE", "TARGET")?;
        for line in &self.lines {
            let verdict = if line.is_same() { "same".to_owned() } else { format!("{} DIFFERENT", line.different) };
            writeln!(f, "{:18} {:>12} {:>12}  {verdict}", line.what, line.from, line.to)?;
        }
        let verdict = if self.logs_from == self.logs_to { "same" } else { "DIFFERENT" };
        writeln!(f, "{:18} {:>12} {:>12}  {verdict}", "hash of logs", short(&self.logs_from), short(&self.logs_to))?;
        for remark in &self.remarks {
            writeln!(f, "in the source already: {remark}")?;
        }
        for difference in &self.differences {
            writeln!(f, "different: {difference}")?;
        }
        write!(f, "{}", if self.is_same() { "both are the same" } else { "they are NOT the same" })
    }
}

fn short(hash: &str) -> &str {
    hash.get(..12).unwrap_or(hash)
}

/// Descriptions of findings, at most [`SHOWN`].
#[derive(Default)]
struct Words {
    told: Vec<String>,
    more: u64,
}

impl Words {
    fn add(&mut self, words: impl FnOnce() -> String) {
        if self.told.len() < SHOWN {
            self.told.push(words());
        } else {
            self.more += 1;
        }
    }

    fn into_list(mut self) -> Vec<String> {
        if self.more > 0 {
            self.told.push(format!("and {} more like these", self.more));
        }
        self.told
    }
}

/// Compares everything.
pub(super) async fn compare(
    source: &Export,
    target: &PostgresImport,
    batch: BatchLimits,
    tell: &mut dyn FnMut(MigrationStep),
) -> Result<Summary, Error> {
    let (from, to) = (source.totals().map_err(read)?, target.totals().await.map_err(write)?);
    let mut lines: Vec<SummaryLine> = NAMES
        .iter()
        .zip(from.iter().zip(to))
        .map(|(what, (from, to))| SummaryLine { what, from: *from, to, different: 0 })
        .collect();
    let (mut differences, mut remarks) = (Vec::new(), Vec::new());
    let mut at = 0;
    macro_rules! compare {
        ($kind:ty) => {
            let found = rows::<$kind>(source, target, batch, tell).await?;
            lines[at].different = found.different;
            differences.extend(found.differences.into_list());
            remarks.extend(found.remarks.into_list());
            at += 1;
        };
    }
    each_kind!(compare);
    debug_assert_eq!(at, COUNT);

    let logs = logs(source, target, batch, tell).await?;
    lines.push(SummaryLine {
        what: "whole logs",
        from: logs.tasks,
        to: logs.tasks - logs.different,
        different: logs.different,
    });
    differences.extend(logs.differences.into_list());
    remarks.extend(logs.remarks.into_list());

    let (kept, mine) = (source.miscounted().map_err(read)?, target.miscounted().await.map_err(write)?);
    let words = |[view, kind, counted, kept]: &[i64; 4]| {
        format!("counter {kind} of view {view} says {kept}, and {counted} are there")
    };
    remarks.extend(kept.iter().map(words));
    differences.extend(mine.iter().map(words));
    lines.push(SummaryLine { what: "wrong counters", from: 0, to: mine.len() as u64, different: mine.len() as u64 });

    // Balances are copied unchecked: only a mismatch that the source does not have is a difference.
    let (kept, mine) = (source.wrong().map_err(read)?, target.wrong().await.map_err(write)?);
    remarks.extend(kept.iter().map(ToString::to_string));
    let new: Vec<String> = mine.iter().filter(|wrong| !kept.contains(wrong)).map(ToString::to_string).collect();
    let (from, to, different) = (kept.len() as u64, mine.len() as u64, new.len() as u64);
    lines.push(SummaryLine { what: "wrong balances", from, to, different });
    differences.extend(new);

    let (logs_from, logs_to) = (logs.from, logs.to);
    Ok(Summary { lines, logs_from, logs_to, remarks, differences })
}

/// The result for one kind.
#[derive(Default)]
struct Met {
    different: u64,
    differences: Words,
    remarks: Words,
}

/// Finds every row of the source in the target. With the same number of rows on both sides, both are equal.
async fn rows<K: RowKind>(
    source: &Export,
    target: &PostgresImport,
    batch: BatchLimits,
    tell: &mut dyn FnMut(MigrationStep),
) -> Result<Met, Error> {
    let (mut place, mut compared, mut met) = (None::<RowPosition>, 0, Met::default());
    loop {
        let (places, rows): (Vec<RowPosition>, Vec<K::Row>) =
            K::read(source, place.as_ref(), batch).map_err(read)?.into_iter().unzip();
        let Some(last) = places.into_iter().next_back() else { return Ok(met) };
        let found = K::find(target, &rows).await.map_err(write)?;
        // Both are in the same order: the search for a row begins after the previous match.
        let mut rest = &found[..];
        for row in &rows {
            if let Some(odd) = row.odd() {
                met.remarks.add(|| odd);
            }
            match rest.iter().position(|found| found == row) {
                Some(at) => rest = &rest[at + 1..],
                None => {
                    met.different += 1;
                    met.differences
                        .add(|| format!("one of the {} is missing or not the same: {}", K::NAME, brief(row)));
                }
            }
        }
        place = Some(last);
        compared += rows.len() as u64;
        tell(MigrationStep::Compared { what: K::NAME, rows: compared });
    }
}

/// The beginning of a row's debug output.
fn brief(row: &impl fmt::Debug) -> String {
    let text = format!("{row:?}");
    if text.chars().count() <= 200 { text } else { text.chars().take(199).chain(['…']).collect() }
}

struct Compared {
    tasks: u64,
    different: u64,
    from: String,
    to: String,
    differences: Words,
    remarks: Words,
}

/// Reads every log on both sides, task by task.
async fn logs(
    source: &Export,
    target: &PostgresImport,
    batch: BatchLimits,
    tell: &mut dyn FnMut(MigrationStep),
) -> Result<Compared, Error> {
    let mut compared = Compared {
        tasks: 0,
        different: 0,
        from: String::new(),
        to: String::new(),
        differences: Words::default(),
        remarks: Words::default(),
    };
    let (mut from, mut to) = (Sha256::new(), Sha256::new());
    let mut open: Option<(i64, Reading, Reading)> = None;
    let mut place = None::<RowPosition>;
    loop {
        let (places, rows): (Vec<RowPosition>, Vec<LogRow>) =
            Logs::read(source, place.as_ref(), batch).map_err(read)?.into_iter().unzip();
        let found = Logs::find(target, &rows).await.map_err(write)?;
        let mut found = found.iter().peekable();
        for row in &rows {
            if let Some((no, here, there)) = open.take_if(|(no, ..)| *no != row.task_no) {
                compared.settle(no, here, there, &mut from, &mut to);
            }
            let (_, here, there) = open.get_or_insert_with(|| (row.task_no, Reading::default(), Reading::default()));
            here.read(row);
            if let Some(found) = found.next_if(|found| (found.task_no, found.first) == (row.task_no, row.first)) {
                there.read(found);
            }
        }
        match places.into_iter().next_back() {
            Some(last) => place = Some(last),
            None => break,
        }
        tell(MigrationStep::Compared { what: "whole logs", rows: compared.tasks });
    }
    if let Some((no, here, there)) = open {
        compared.settle(no, here, there, &mut from, &mut to);
    }
    (compared.from, compared.to) = (hex(&from.finalize()), hex(&to.finalize()));
    Ok(compared)
}

impl Compared {
    fn settle(&mut self, no: i64, here: Reading, there: Reading, from: &mut Sha256, to: &mut Sha256) {
        self.tasks += 1;
        let same = here.last == there.last
            && here.hole == there.hole
            && here.refused == there.refused
            && here.fold == there.fold;
        let (here_hash, there_hash) = (here.hash.finalize(), there.hash.finalize());
        from.update(here_hash);
        to.update(there_hash);
        if !same || here_hash != there_hash {
            self.different += 1;
            self.differences.add(|| format!("the log of the task of number {no} is not the same"));
        }
        for trouble in here.hole.into_iter().chain(here.refused) {
            self.remarks.add(|| format!("the log of the task of number {no}: {trouble}"));
        }
    }
}

/// A log as it is read, row by row.
#[derive(Default)]
struct Reading {
    hash: Sha256,
    last: u64,
    fold: Option<Box<Task>>,
    /// The first gap or row that cannot be read.
    hole: Option<String>,
    /// The reason it is not a task's log; it is not folded after that.
    refused: Option<String>,
}

impl Reading {
    fn read(&mut self, row: &LogRow) {
        self.hash.update(row.first.to_le_bytes());
        self.hash.update(row.last.to_le_bytes());
        self.hash.update((row.payload.len() as u64).to_le_bytes());
        self.hash.update(&row.payload);
        match self.events(row) {
            Ok(events) => {
                if self.refused.is_none() {
                    self.refused = self.step(&events).err().map(|refused| refused.to_string());
                }
            }
            Err(hole) => drop(self.hole.get_or_insert(hole)),
        }
        self.last = row.last;
    }

    fn events(&self, row: &LogRow) -> Result<Vec<Event>, String> {
        if row.first != self.last + 1 {
            return Err(format!("event {} does not follow {}", row.first, self.last));
        }
        let events = stored::decode(Seq(row.first), &row.payload).map_err(|error| error.to_string())?;
        if row.first + events.len() as u64 != row.last + 1 {
            return Err(format!("the row from {} to {} holds {} events", row.first, row.last, events.len()));
        }
        Ok(events)
    }

    fn step(&mut self, events: &[Event]) -> Result<(), TransitionError> {
        for event in events {
            match &mut self.fold {
                Some(task) => task.apply(event)?,
                None => self.fold = Some(Box::new(Task::open(event)?)),
            }
        }
        Ok(())
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
