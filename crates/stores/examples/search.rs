//! The cost of a search as an index grows, on this machine: 20 of 1,000 texts found against 20 of 100,000. SQLite in a
//! temporary folder, and PostgreSQL with the argument `postgres`: `cargo run --release -p rialto-stores --example search`.
//!
//! Settings: `RIALTO_TEXTS` (100000), `RIALTO_SEARCHES` (2000).
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use model::ports::store::{Commit, Outcome, Store};
use model::{TextChange, TextQuery};
use stores::{postgres, sqlite};

const FOUND: usize = 20;

fn setting(name: &str, default: usize) -> usize {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// So many texts, of which twenty, evenly spread, are about hats.
async fn fill(store: &Arc<dyn Store>, shelf: &str, count: usize) {
    let every = count / FOUND;
    let text = |n: usize| TextChange::Put {
        shelf: shelf.into(),
        id: format!("p{n:06}").into(),
        title: format!(
            "{} {} no {n}",
            if n.is_multiple_of(every) { "Hat" } else { "Cap" },
            ["red", "blue", "green"][n % 3]
        ),
        body: format!("a thing of wool and straw, made in {} for everybody who wants number {n}", 1900 + n % 120),
    };
    let all: Vec<usize> = (0..count).collect();
    for some in all.chunks(200) {
        let texts = some.iter().map(|n| text(*n)).collect();
        assert_eq!(store.commit(Commit { texts, ..Commit::default() }).await, Outcome::Done);
    }
}

/// The time of a search, that of half of them and that of ninety-nine in a hundred.
async fn measure(store: &Arc<dyn Store>, shelf: &str, words: &str, searches: usize) -> (Duration, Duration) {
    let mut times = Vec::with_capacity(searches);
    for _ in 0..searches {
        let query = TextQuery { shelf: shelf.into(), words: words.into(), after: None, limit: 20, count: true };
        let begin = Instant::now();
        let page = store.search(query).await.unwrap();
        times.push(begin.elapsed());
        assert_eq!((page.found.len(), page.total), (FOUND, Some(FOUND as u64)));
    }
    times.sort_unstable();
    (times[searches / 2], times[searches * 99 / 100])
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let (texts, searches) = (setting("RIALTO_TEXTS", 100_000), setting("RIALTO_SEARCHES", 2_000));
    let folder = tempfile::tempdir().unwrap();
    let store: Arc<dyn Store> = if std::env::args().nth(1).as_deref() == Some("postgres") {
        let url = cluster::Cluster::shared().database().url();
        Arc::new(postgres::PostgresStore::open(postgres::Options::new(url)).await.unwrap())
    } else {
        Arc::new(sqlite::SqliteStore::open(sqlite::Options::new(folder.path())).unwrap())
    };
    fill(&store, "small", 1_000).await;
    let begin = Instant::now();
    fill(&store, "large", texts).await;
    println!("{texts} texts written in {:.1} s", begin.elapsed().as_secs_f64());
    // A word that only these have; and with it one that all have, short and long.
    for words in ["hat", "wool hat", "everybody hat"] {
        for shelf in ["small", "large", "small", "large"] {
            let (half, most) = measure(&store, shelf, words, searches).await;
            println!("{words:?}, {shelf}: {FOUND} found in {half:?}, 99 in a hundred within {most:?}");
        }
    }
    store.close().await;
}
