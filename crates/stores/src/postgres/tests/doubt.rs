//! COMMITs whose answer is lost: by a proxy that cuts, delays and doubles them, by a server that stops over one, and by a
//! synchronous standby that is away. What a commit is answered is what became of it, then and for good.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cluster::{Cluster, Database};
use model::ports::store::{
    Append, Commit, Outcome, RecordStore as _, Replicas as _, StoreError, TaskLog as _, Upkeep as _,
};
use model::{Expect, Record, RecordChange, Seq, TaskId};
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use super::{length, more, one, opening, options, put, until};
use crate::postgres::{Options, PostgresStore};

/// The fault that meets the next COMMIT on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mishap {
    /// The server gets it, and the client is cut off at once.
    CutAtOnce,
    /// The server receives it and answers; the client is cut off before the answer.
    CutBeforeAnswer,
    /// It is lost, and both ends are cut off.
    Never,
    /// The client is cut off, and the server gets it when all is over.
    Late,
    /// The server gets it twice.
    Twice,
    /// The server does it, and says that it has stopped over it.
    Panic,
}

const MISHAPS: [Mishap; 6] =
    [Mishap::CutAtOnce, Mishap::CutBeforeAnswer, Mishap::Never, Mishap::Late, Mishap::Twice, Mishap::Panic];

/// A proxy before the database.
#[derive(Clone)]
struct Line {
    port: u16,
    next: Arc<Mutex<Option<Mishap>>>,
    /// New connections are refused.
    down: watch::Sender<bool>,
    /// Releases the COMMITs that are late.
    late: watch::Sender<bool>,
    /// How many COMMITs were late and are over.
    over: watch::Sender<usize>,
}

impl Line {
    async fn to(port: u16) -> Line {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let line = Line {
            port: listener.local_addr().unwrap().port(),
            next: Arc::default(),
            down: watch::Sender::new(false),
            late: watch::Sender::new(false),
            over: watch::Sender::new(0),
        };
        let proxy = line.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                if *proxy.down.borrow() {
                    continue;
                }
                let server = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
                tokio::spawn(proxy.clone().carry(client, server));
            }
        });
        line
    }

    async fn carry(self, mut client: TcpStream, mut server: TcpStream) {
        const COMMIT: &[u8] = b"Q\0\0\0\x0bCOMMIT\0";
        const DONE: &[u8] = b"C\0\0\0\x0bCOMMIT\0";
        let find = |bytes: &[u8], word: &[u8]| bytes.windows(word.len()).position(|window| window == word);
        let (mut from_client, mut from_server) = (vec![0; 1 << 16], vec![0; 1 << 16]);
        let mut met = None;
        loop {
            tokio::select! {
                read = client.read(&mut from_client) => {
                    let Ok(n @ 1..) = read else { return };
                    let mut bytes = from_client[..n].to_vec();
                    if find(&bytes, COMMIT).is_some() && let Some(next) = self.next.lock().take() {
                        met = Some(next);
                    }
                    match met {
                        Some(Mishap::Never) => return,
                        Some(Mishap::Late) => {
                            drop(client);
                            let _ = self.late.subscribe().wait_for(|late| *late).await;
                            // Its end may be gone by now.
                            if server.write_all(&bytes).await.is_ok() {
                                while let Ok(1..) = server.read(&mut from_server).await {
                                    if find(&from_server, b"ROLLBACK\0").or(find(&from_server, DONE)).is_some() {
                                        break;
                                    }
                                }
                            }
                            self.over.send_modify(|over| *over += 1);
                            return;
                        }
                        Some(Mishap::Twice) => {
                            bytes.extend_from_slice(COMMIT);
                            met = None;
                        }
                        Some(Mishap::CutAtOnce | Mishap::CutBeforeAnswer | Mishap::Panic) | None => {}
                    }
                    if server.write_all(&bytes).await.is_err() {
                        return;
                    }
                    if met == Some(Mishap::CutAtOnce) {
                        drop(client);
                        // The server's end stays open, as after a cut that it has not noticed.
                        while let Ok(1..) = server.read(&mut from_server).await {}
                        return;
                    }
                }
                read = server.read(&mut from_server) => {
                    let Ok(n @ 1..) = read else { return };
                    let done = find(&from_server[..n], DONE);
                    match (met, done) {
                        (Some(Mishap::CutBeforeAnswer), Some(_)) => return,
                        (Some(Mishap::Panic), Some(at)) => {
                            let fields = b"SPANIC\0VPANIC\0C53100\0Mcould not write to file: No space left on device\0\0";
                            let mut said = from_server[..at].to_vec();
                            said.push(b'E');
                            said.extend_from_slice(&(fields.len() as u32 + 4).to_be_bytes());
                            said.extend_from_slice(fields);
                            let _ = client.write_all(&said).await;
                            return;
                        }
                        (Some(_), None) | (None, _) | (Some(_), Some(_)) => {}
                    }
                    if client.write_all(&from_server[..n]).await.is_err() {
                        return;
                    }
                }
            }
        }
    }
}

/// The commit that meets the fault.
#[derive(Clone, Copy, Debug)]
enum Deed {
    /// New things, in one round trip.
    Opens,
    Appends,
    /// Writes a record of a product.
    Keeps,
}

async fn record(store: &PostgresStore, key: &str) -> Option<Record> {
    store.record("doubt".into(), key.into()).await.unwrap()
}

/// Long enough for another connection on a busy machine.
fn patient(url: String) -> Options {
    Options { lease: Duration::from_secs(4), ..options(url) }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_commit_is_answered_is_what_became_of_it() {
    for pooled in [false, true] {
        let database = Cluster::shared().database();
        let line = Line::to(Cluster::shared().port()).await;
        let direct_url = pooled.then(|| database.url());
        let url = database.url_at(line.port);
        let store = PostgresStore::open(Options { direct_url, ..patient(url) }).await.unwrap();
        // The flush takes a while.
        database.run(
            "CREATE FUNCTION rialto.slow() RETURNS trigger LANGUAGE plpgsql AS
             $$ BEGIN PERFORM pg_sleep(0.1); RETURN NULL; END $$;
             CREATE CONSTRAINT TRIGGER slow AFTER INSERT OR UPDATE ON rialto.fence DEFERRABLE INITIALLY DEFERRED
             FOR EACH ROW EXECUTE FUNCTION rialto.slow()",
        );
        let (mut late, mut rows) = (0, 0);
        for mishap in MISHAPS {
            for deed in [Deed::Opens, Deed::Appends, Deed::Keeps] {
                let what = format!("{mishap:?} {deed:?} pooled: {pooled}");
                let key = format!("{mishap:?}");
                let task = put(&store).await;
                rows += 1;
                let (commit, task, before) = match deed {
                    Deed::Opens => {
                        let append = opening();
                        (one(append.clone()), append.task, 0)
                    }
                    Deed::Appends => (one(more(task, 1)), task, 1),
                    Deed::Keeps => {
                        let put = RecordChange::Put {
                            kind: "doubt".into(),
                            key: key.as_str().into(),
                            expect: Expect::Absent,
                            body: Bytes::from_static(b"kept"),
                            lists: Vec::new(),
                        };
                        (Commit { records: vec![put], ..Commit::default() }, task, 1)
                    }
                };
                line.late.send_replace(false);
                *line.next.lock() = Some(mishap);
                let outcome = store.commit(commit).await;
                assert_eq!(*line.next.lock(), None, "{what}: it went wrong");
                let happened = match outcome {
                    Outcome::Done => true,
                    // A pooler's connection cannot be ended: it keeps its locks until the server does.
                    Outcome::Refused(_) if pooled && mishap == Mishap::Late => false,
                    other => panic!("{what}: {other:?}"),
                };
                rows += u64::from(happened && !matches!(deed, Deed::Keeps));
                let check = async |when: &str| {
                    let there = match deed {
                        Deed::Opens | Deed::Appends => length(&store, task).await == before + u64::from(happened),
                        Deed::Keeps => record(&store, &key).await.is_some() == happened,
                    };
                    assert!(there, "{what}, {when}");
                };
                check("when it is answered").await;
                if mishap == Mishap::Late {
                    late += 1;
                    line.late.send_replace(true);
                    let mut over = line.over.subscribe();
                    tokio::time::timeout(super::PATIENCE, over.wait_for(|over| *over == late)).await.unwrap().unwrap();
                    check("when the late one has come").await;
                }
                assert_eq!(store.health().await.unwrap().events_rows, rows, "{what}: counted once");
            }
        }
        assert_eq!(store.trouble(), None);
    }
}

/// Other replicas get hints of commits in doubt like of any other.
#[tokio::test(flavor = "multi_thread")]
async fn what_happened_in_doubt_is_told_to_the_others() {
    let database = Cluster::shared().database();
    let line = Line::to(Cluster::shared().port()).await;
    let store = PostgresStore::open(patient(database.url_at(line.port))).await.unwrap();
    let other = PostgresStore::open(patient(database.url())).await.unwrap();
    let mut hints = other.hints();
    let task = put(&store).await;
    *line.next.lock() = Some(Mishap::CutBeforeAnswer);
    assert_eq!(store.commit(one(more(task, 1))).await, Outcome::Done);
    super::hears(&mut hints, model::ports::store::Hint::Grown(task, Seq(2))).await;
}

/// As long as nothing can be reached nothing is known, and a read is not taken for an answer.
#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_decided_in_time_is_unknown_until_it_is() {
    for (mishap, happened) in [(Mishap::CutBeforeAnswer, true), (Mishap::Never, false)] {
        let database = Cluster::shared().database();
        let line = Line::to(Cluster::shared().port()).await;
        let direct_url = Some(database.url());
        let store = PostgresStore::open(Options { direct_url, ..options(database.url_at(line.port)) }).await.unwrap();
        put(&store).await;
        line.down.send_replace(true);
        *line.next.lock() = Some(mishap);
        let append = opening();
        let task = append.task;
        let outcome = store.commit(one(append.clone())).await;
        assert!(matches!(outcome, Outcome::Unknown(StoreError::Unreachable(_))), "{mishap:?}: {outcome:?}");
        assert!(matches!(store.decided().await, Err(StoreError::Unreachable(_))), "{mishap:?}");
        assert!(
            matches!(store.commit(one(opening())).await, Outcome::Refused(_)),
            "{mishap:?}: others wait for nothing"
        );
        line.down.send_replace(false);
        until("it is decided", || async { store.decided().await.ok() }).await;
        assert_eq!(length(&store, task).await, u64::from(happened), "{mishap:?}");
        until("the trouble ends", || async { store.trouble().is_none().then_some(()) }).await;
        let again = store.commit(one(append)).await;
        assert_eq!(matches!(again, Outcome::Done), !happened, "{mishap:?}: {again:?}");
    }
}

/// Waits until the primary waits for its standby.
async fn synchronous(database: &Database) {
    database.run("ALTER SYSTEM SET synchronous_standby_names = '*'");
    database.run("SELECT pg_reload_conf()");
    let state = "SELECT sync_state FROM pg_stat_replication";
    until("the standby follows", || async { (database.query(state) == [["sync"]]).then_some(()) }).await;
}

/// A commit that waits for a standby is neither there nor refused; it is there when the standby is.
#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_waits_for_a_standby_is_in_doubt_until_the_standby_is_back() {
    let cluster = Cluster::start(cluster::Options::default());
    let database = cluster.database();
    let standby = cluster.standby();
    synchronous(&database).await;
    let store = PostgresStore::open(patient(database.url())).await.unwrap();
    let known = put(&store).await;
    standby.stop();
    let append = Append { epoch: Some(model::Epoch(1)), ..opening() };
    let task: TaskId = append.task;
    let outcome = store.commit(one(append)).await;
    assert!(matches!(outcome, Outcome::Unknown(_)), "{outcome:?}");
    assert_eq!((length(&store, task).await, length(&store, known).await), (0, 1), "reads go on, and do not see it");
    assert!(store.decided().await.is_err(), "that it is not seen proves nothing");
    let refused = store.commit(one(opening())).await;
    assert!(matches!(refused, Outcome::Refused(_)), "{refused:?}");
    assert!(store.trouble().is_some());
    standby.start_again();
    until("it is decided", || async { store.decided().await.ok() }).await;
    assert_eq!(length(&store, task).await, 1, "it happened");
    assert_eq!(store.held(None, 5).await.unwrap().last(), Some(&(task, model::Epoch(1))));
    until("the trouble ends", || async { store.trouble().is_none().then_some(()) }).await;
    put(&store).await;
}
