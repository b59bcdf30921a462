//! The memory of a large import. The test is alone in its process, because it counts all allocations.
#![allow(clippy::unwrap_used)]

use std::fmt::Write;

use model::Time;
use peak_alloc::PeakAlloc;
use shop_rules::import::{self, CatalogueFormat};
use shop_rules::{Currency, Site};

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

const ROWS: usize = 100_000;
/// Bytes of memory per row, beside the text.
const A_ROW: usize = 2_048;

#[test]
fn a_hundred_thousand_rows_take_their_room_and_no_more() {
    let now = Time(1_775_721_600_000);
    let site = Site::new("acme".into(), "ws_1".into(), "Acme", Currency::check("USD").unwrap(), now);
    let mut text = "id,name,price,stock,sku,tags,description\n".to_owned();
    for n in 0..ROWS {
        writeln!(text, "p{n},Hat {n},{}.90,{n},H{n},summer|sun,\"Wide, and\nlight \"\"straw\"\" for {n}\"", n % 100)
            .unwrap();
    }
    let before = MEMORY.current_usage();
    MEMORY.reset_peak_usage();
    let read = import::read(&site, CatalogueFormat::Csv, &text, now).unwrap();
    let (peak, kept) = (MEMORY.peak_usage() - before, MEMORY.current_usage() - before);
    assert_eq!(read.products.len(), ROWS);
    let last = &read.products[ROWS - 1].product;
    assert_eq!(&*last.description, format!("Wide, and\nlight \"straw\" for {}", ROWS - 1));
    let (peak, kept) = (peak / ROWS, kept / ROWS);
    assert!(peak <= A_ROW, "{peak} bytes a row while it was read, {kept} in the end");

    // As many errors take no more memory: the number of reported errors is limited, and lines are counted once.
    text.push_str("x,\"X\" x,1,,,,\n");
    drop(read);
    MEMORY.reset_peak_usage();
    let before = MEMORY.current_usage();
    let faults = import::read(&site, CatalogueFormat::Csv, &text.replace(".90,", ".9999,"), now).unwrap_err();
    let peak = (MEMORY.peak_usage() - before - text.len()) / ROWS;
    assert_eq!((faults.len(), faults[0].line), (import::MAX_FAULTS, 2 * ROWS + 2));
    assert!(peak <= A_ROW, "{peak} bytes a row with faults");
}
