//! Tests of this store alone: the schema's version, faults of the network, the server and its disk, and leases.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use cluster::{Cluster, Database};
use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream::BoxStream;
use model::ports::store::{
    Append, Commit, Conflict, Hint, IndexRow, Opening, Outcome, Replicas as _, StoreError, TaskLog as _, Upkeep as _,
};
use model::{Body, ContextId, Epoch, Event, Seq, State, TaskId, Time, View, stored};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;
use uuid::Uuid;

use super::connect::ConnectTarget;
use super::{Options, PostgresOpenError, PostgresStore, schema, statements};

mod doubt;
mod silence;

/// Longer than any step here takes: a wait that exceeds it has failed.
const PATIENCE: Duration = Duration::from_secs(60);

fn opening() -> Append {
    let event = Event { seq: Seq(1), at: Time(1), body: Body::Bound { remote: "there".into() } };
    Append {
        task: TaskId(Uuid::now_v7()),
        expected: Seq::ZERO,
        epoch: None,
        count: 1,
        payload: stored::encode(std::slice::from_ref(&event)).into(),
        open: Some(Opening {
            context: ContextId::from(Uuid::now_v7().to_string().as_str()),
            fresh_context: true,
            tenant: "t".into(),
            agent: "a".into(),
            views: vec![View("v".into())],
        }),
        row: Some(IndexRow { state: State::Working, status_at: Time(1), listed: true, running: true, settled: false }),
    }
}

/// One more event, of no use to anybody.
fn more(task: TaskId, expected: u64) -> Append {
    Append { task, expected: Seq(expected), open: None, row: None, ..opening() }
}

fn one(append: Append) -> Commit {
    Commit { appends: vec![append], ..Commit::default() }
}

fn options(url: String) -> Options {
    Options { lease: Duration::from_secs(1), ..Options::new(url) }
}

async fn open(database: &Database) -> PostgresStore {
    PostgresStore::open(options(database.url())).await.unwrap()
}

/// Opens a task and answers its id.
async fn put(store: &PostgresStore) -> TaskId {
    let append = opening();
    let task = append.task;
    assert_eq!(store.commit(one(append)).await, Outcome::Done);
    task
}

async fn length(store: &PostgresStore, task: TaskId) -> u64 {
    store.head(task).await.unwrap().map_or(0, |head| head.seq.0)
}

/// Waits until the store says this; what comes before it is passed over.
async fn hears(hints: &mut BoxStream<'static, Hint>, expected: Hint) {
    let heard = async { while hints.next().await != Some(expected) {} };
    tokio::time::timeout(PATIENCE, heard).await.unwrap_or_else(|_| panic!("{expected:?} was not heard"));
}

/// Tries until it works.
async fn until<T, F: Future<Output = Option<T>>>(what: &str, attempt: impl Fn() -> F) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = attempt().await {
            return found;
        }
        assert!(Instant::now() < deadline, "in vain: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

impl PostgresStore {
    /// Stops everything without a sign to other replicas, as a crash does.
    async fn die(self) {
        let tasks = self.tasks.lock().await.take().unwrap();
        for task in [tasks.writer, tasks.notifier, tasks.lease_keeper] {
            task.abort();
            assert!(task.await.unwrap_err().is_cancelled());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn several_may_open_an_empty_database_at_once() {
    let database = Cluster::shared().database();
    let stores = join_all((0..6).map(|_| open(&database))).await;
    let mut epochs: Vec<Epoch> = stores.iter().map(|store| store.epoch()).collect();
    epochs.sort();
    epochs.dedup();
    assert_eq!(epochs.len(), 6);
    let mut slots: Vec<i32> = stores.iter().map(|store| store.shared.replica.slot).collect();
    slots.sort_unstable();
    assert_eq!(slots, [0, 1, 2, 3, 4, 5]);
    // A slot is used again, a number never.
    let (free, highest) = (stores[2].shared.replica.slot, epochs[5]);
    stores[2].close().await;
    let next = open(&database).await;
    assert_eq!(next.shared.replica.slot, free);
    assert!(next.epoch() > highest);
}

#[tokio::test]
async fn a_newer_schema_is_refused_and_left_alone() {
    let database = Cluster::shared().database();
    open(&database).await.close().await;
    database.run("UPDATE rialto.meta SET version = 4000");
    let error = PostgresStore::open(options(database.url())).await.err().unwrap();
    assert!(matches!(error, PostgresOpenError::Newer { found: 4_000, known } if known == schema::VERSION), "{error}");
    database.run(&format!("UPDATE rialto.meta SET version = {}", schema::VERSION));
    open(&database).await;
}

#[tokio::test]
async fn a_schema_of_another_program_is_refused() {
    let database = Cluster::shared().database();
    database.run("CREATE SCHEMA rialto; CREATE TABLE rialto.theirs (x integer)");
    let error = PostgresStore::open(options(database.url())).await.err().unwrap();
    assert!(matches!(error, PostgresOpenError::Foreign), "{error}");
    // An empty one is as good as none: an owner may have made it for us.
    let database = Cluster::shared().database();
    database.run("CREATE SCHEMA rialto");
    open(&database).await;
}

#[tokio::test]
async fn whoever_cannot_connect_is_told_what_to_do_and_no_password() {
    let database = Cluster::shared().database();
    let (url, password) = (database.url(), database.password());
    let closed = 1;
    for (url, expected) in [
        (url.replace(database.name(), "nowhere"), "createdb nowhere"),
        (url.replace(password, "hidden"), "check user and password"),
        (database.url_at(closed), "check that it runs there"),
        (format!("{url}?sslmode=require"), "check sslmode"),
    ] {
        let error = PostgresStore::open(options(url)).await.err().unwrap();
        let text = format!("{error}");
        assert!(text.contains(expected), "{text}");
        let all = format!("{text} {error:?}");
        assert!(!all.contains(password) && !all.contains("hidden"), "{all}");
    }
    database.run("CREATE ROLE weak LOGIN PASSWORD 'hidden'");
    let weak = database.url().replace("rialto:", "weak:").replace(password, "hidden");
    let error = PostgresStore::open(options(weak)).await.err().unwrap();
    assert!(matches!(error, PostgresOpenError::Rights { .. }) && error.to_string().contains("grant"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_goes_and_comes_back_needs_no_restart() {
    let cluster = Cluster::start(cluster::Options::default());
    let database = cluster.database();
    let store = open(&database).await;
    let mut hints = store.hints();
    let task = put(&store).await;
    cluster.stop();
    // The first waits a little for it to come back, the others not at all.
    for _ in 0..3 {
        match store.commit(one(opening())).await {
            Outcome::Refused(StoreError::Unreachable(_)) => {}
            other => panic!("{other:?}"),
        }
    }
    assert!(matches!(store.head(task).await, Err(StoreError::Unreachable(_))));
    assert!(matches!(store.shared.trouble.lock().clone(), Some(StoreError::Unreachable(_))));
    cluster.start_again();
    // No commit comes; the writer finds out on its own.
    until("the trouble ends", || async { store.shared.trouble.lock().is_none().then_some(()) }).await;
    assert_eq!(length(&store, task).await, 1);
    put(&store).await;
    hears(&mut hints, Hint::Missed).await;
    // Connections that are dead without anybody having noticed are not a fault either.
    cluster.restart();
    assert_eq!(length(&store, task).await, 1);
    put(&store).await;
    // The replica's next heartbeat says so.
    until("the health is good", || async { store.health().await.unwrap().trouble.is_none().then_some(()) }).await;
}

/// Modes of the proxy: it passes on all bytes of the client.
const PASS: u8 = 0;
/// Ends the connection instead of passing on a BEGIN.
const CUT_AT_BEGIN: u8 = 1;
/// Passes on nothing, either way, as if the cable were out.
const HOLD: u8 = 2;

/// A proxy before the database. It applies a fault to one connection, once.
async fn proxy(port: u16) -> (u16, Arc<AtomicU8>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let own = listener.local_addr().unwrap().port();
    let order = Arc::new(AtomicU8::new(PASS));
    let told = order.clone();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let server = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
            tokio::spawn(relay(client, server, told.clone()));
        }
    });
    (own, order)
}

async fn relay(mut client: TcpStream, mut server: TcpStream, order: Arc<AtomicU8>) {
    let (mut from_client, mut from_server) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    loop {
        while order.load(Ordering::SeqCst) == HOLD {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let says = |bytes: &[u8], word: &[u8]| bytes.windows(word.len()).any(|window| window == word);
        let once = |kind: u8| order.compare_exchange(kind, PASS, Ordering::SeqCst, Ordering::SeqCst).is_ok();
        tokio::select! {
            read = client.read(&mut from_client) => {
                let Ok(n @ 1..) = read else { return };
                let bytes = &from_client[..n];
                if says(bytes, b"BEGIN ISOLATION") && once(CUT_AT_BEGIN) {
                    return;
                }
                if server.write_all(bytes).await.is_err() {
                    return;
                }
            }
            read = server.read(&mut from_server) => {
                let Ok(n @ 1..) = read else { return };
                if client.write_all(&from_server[..n]).await.is_err() {
                    return;
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_lost_before_the_commit_was_sent_is_no_matter() {
    let database = Cluster::shared().database();
    let (port, order) = proxy(Cluster::shared().port()).await;
    let store = PostgresStore::open(options(database.url_at(port))).await.unwrap();
    let task = put(&store).await;
    for n in 1..4 {
        order.store(CUT_AT_BEGIN, Ordering::SeqCst);
        assert_eq!(store.commit(one(more(task, n))).await, Outcome::Done);
        assert_eq!(order.load(Ordering::SeqCst), PASS, "it was cut");
    }
    assert_eq!(length(&store, task).await, 4);
    assert_eq!(store.health().await.unwrap().events_rows, 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_cut_off_learns_it_and_the_others_take_over() {
    let database = Cluster::shared().database();
    let (port, order) = proxy(Cluster::shared().port()).await;
    let far = PostgresStore::open(options(database.url_at(port))).await.unwrap();
    let near = open(&database).await;
    let (mut to_far, mut to_near) = (far.hints(), near.hints());
    let held = Append { epoch: Some(Epoch(1)), ..opening() };
    let task = held.task;
    assert_eq!(far.commit(one(held)).await, Outcome::Done);
    assert_eq!(far.held(None, 5).await.unwrap(), [(task, Epoch(1))]);
    assert_eq!(near.held(None, 5).await.unwrap(), []);
    assert_eq!(near.orphans(None, 5).await.unwrap(), []);
    order.store(HOLD, Ordering::SeqCst);
    hears(&mut to_near, Hint::Gone).await;
    assert_eq!(near.orphans(None, 5).await.unwrap(), [(task, Epoch(1))]);
    let takes = Append { epoch: Some(Epoch(2)), ..more(task, 1) };
    assert_eq!(near.commit(one(takes)).await, Outcome::Done);
    order.store(PASS, Ordering::SeqCst);
    hears(&mut to_far, Hint::CutOff).await;
    // It takes no replica for gone for a while, and its turns are not its own any more.
    assert!(!far.shared.replica.liveness().judges);
    let late = Append { epoch: Some(Epoch(1)), ..more(task, 2) };
    let outcome = until("it reaches the database again", || async {
        let outcome = far.commit(one(late.clone())).await;
        (!matches!(outcome, Outcome::Refused(_))).then_some(outcome)
    });
    assert_eq!(outcome.await, Outcome::Conflict(Conflict::Epoch(task, Epoch(2))));
    until("it judges again", || async { far.shared.replica.liveness().judges.then_some(()) }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_dies_without_a_word_is_gone_after_the_lease() {
    let database = Cluster::shared().database();
    let (dying, other) = (open(&database).await, open(&database).await);
    let mut hints = other.hints();
    let task = put(&dying).await;
    dying.die().await;
    assert_eq!(other.orphans(None, 5).await.unwrap(), []);
    hears(&mut hints, Hint::Gone).await;
    assert_eq!(other.orphans(None, 5).await.unwrap(), [(task, Epoch(0))]);
    // Once is enough: what comes next is about something else.
    let third = open(&database).await;
    third.close().await;
    hears(&mut hints, Hint::Gone).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_stops_in_the_middle_of_a_transaction_does_not_keep_its_locks() {
    let database = Cluster::shared().database();
    let store = open(&database).await;
    let task = put(&store).await;
    let stopped =
        ConnectTarget::new(&database.url(), false, &options(database.url())).unwrap().connect().await.unwrap();
    stopped.begin().await.unwrap();
    stopped.query(&statements::TASKS, [&vec![task.0]]).await.unwrap();
    // It waits for the lock until the server ends the holder.
    assert_eq!(store.commit(one(more(task, 1))).await, Outcome::Done);
    assert!(stopped.run("SELECT 1").await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_the_database_cannot_take_fails_alone() {
    let database = Cluster::shared().database();
    let store = open(&database).await;
    database.run(
        "CREATE FUNCTION rialto.refuse() RETURNS trigger LANGUAGE plpgsql AS
         $$ BEGIN IF new.last_seq = 7 THEN RAISE EXCEPTION 'not this one'; END IF; RETURN new; END $$;
         CREATE TRIGGER refuse BEFORE INSERT ON rialto.log FOR EACH ROW EXECUTE FUNCTION rialto.refuse()",
    );
    let group: Vec<_> =
        (0..60).map(|n| store.commit(one(Append { count: if n % 20 == 7 { 7 } else { 1 }, ..opening() }))).collect();
    for (n, outcome) in group.into_iter().enumerate() {
        match outcome.await {
            Outcome::Refused(StoreError::Broken(text)) if n % 20 == 7 => {
                assert!(text.contains("not this one"), "{text}");
            }
            Outcome::Done if n % 20 != 7 => {}
            other => panic!("commit {n}: {other:?}"),
        }
    }
    let health = store.health().await.unwrap();
    // That was no trouble with the database.
    assert_eq!((health.tasks, health.trouble), (57, None));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_refuses_commits_lets_reads_pass_and_heals_by_itself() {
    let database = Cluster::shared().database();
    let store = open(&database).await;
    let task = put(&store).await;
    database.run(
        "CREATE FUNCTION rialto.full() RETURNS trigger LANGUAGE plpgsql AS
         $$ BEGIN RAISE EXCEPTION 'No space left on device' USING ERRCODE = 'disk_full'; END $$;
         CREATE TRIGGER full_disk BEFORE INSERT ON rialto.log FOR EACH ROW EXECUTE FUNCTION rialto.full();
         CREATE TRIGGER full_disk BEFORE UPDATE ON rialto.meta FOR EACH ROW EXECUTE FUNCTION rialto.full()",
    );
    let group: Vec<_> = (0..20).map(|_| store.commit(one(opening()))).collect();
    for outcome in group {
        assert_eq!(outcome.await, Outcome::Refused(StoreError::Full));
    }
    let health = store.health().await.unwrap();
    assert_eq!((health.trouble, health.tasks), (Some(StoreError::Full), 1));
    assert_eq!(length(&store, task).await, 1);
    database.run("DROP TRIGGER full_disk ON rialto.log; DROP TRIGGER full_disk ON rialto.meta");
    until("the trouble ends", || async { store.shared.trouble.lock().is_none().then_some(()) }).await;
    put(&store).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_takes_no_writes_is_named() {
    let database = Cluster::shared().database();
    let store = open(&database).await;
    let task = put(&store).await;
    database.run(&format!("ALTER DATABASE {} SET default_transaction_read_only = on", database.name()));
    database.run(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
         WHERE datname = current_database() AND pid <> pg_backend_pid()",
    );
    // The end of the old connection may leave the first one in doubt.
    let refused = until("it is refused", || async {
        match store.commit(one(opening())).await {
            Outcome::Refused(StoreError::Unreachable(text)) => Some(text),
            Outcome::Unknown(_) => None,
            other => panic!("{other:?}"),
        }
    });
    assert!(refused.await.contains("takes no writes"));
    assert_eq!(length(&store, task).await, 1);
    let error = PostgresStore::open(options(database.url())).await.err().unwrap();
    assert!(matches!(error, PostgresOpenError::Standby { .. }), "{error}");
    database.run(&format!(
        "SET TRANSACTION READ WRITE; ALTER DATABASE {} RESET default_transaction_read_only",
        database.name()
    ));
    until("the trouble ends", || async { store.shared.trouble.lock().is_none().then_some(()) }).await;
    put(&store).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_is_used_and_verified_as_the_url_says() {
    let root_key = rcgen::KeyPair::generate().unwrap();
    let mut root = rcgen::CertificateParams::new(Vec::new()).unwrap();
    root.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let root_pem = root.self_signed(&root_key).unwrap().pem();
    let issuer = rcgen::Issuer::new(root, root_key);
    let key = rcgen::KeyPair::generate().unwrap();
    let leaf = rcgen::CertificateParams::new(vec!["127.0.0.1".into()]).unwrap().signed_by(&key, &issuer).unwrap();
    let cluster = Cluster::start(cluster::Options::default().tls(&leaf.pem(), &key.serialize_pem()));
    let folder = tempfile::tempdir().unwrap();
    let known = folder.path().join("root.pem");
    std::fs::write(&known, &root_pem).unwrap();
    let other = folder.path().join("other.pem");
    std::fs::write(&other, rcgen::generate_simple_self_signed(vec!["x".into()]).unwrap().cert.pem()).unwrap();
    let (known, other) = (known.display(), other.display());
    let database = cluster.database();
    let by_name = database.url().replace("127.0.0.1", "localhost");
    for (url, encrypted) in [
        (format!("{}?sslmode=disable", database.url()), false),
        (database.url(), true),
        (format!("{}?sslmode=require", database.url()), true),
        (format!("{}?sslmode=verify-full&sslrootcert={known}", database.url()), true),
        (format!("{}?sslrootcert={known}", database.url()), true),
        // Its certificate is for the address, not for the name.
        (format!("{by_name}?sslmode=verify-ca&sslrootcert={known}"), true),
    ] {
        let store = PostgresStore::open(options(url)).await.unwrap();
        put(&store).await;
        let ssl = database.query(&format!(
            "SELECT DISTINCT ssl FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)
             WHERE datname = '{}' AND application_name = 'rialto'",
            database.name()
        ));
        assert_eq!(ssl, [[if encrypted { "t" } else { "f" }]]);
        store.close().await;
        let gone = "SELECT 1 FROM pg_stat_activity WHERE application_name = 'rialto'";
        until("its connections are closed", || async { database.query(gone).is_empty().then_some(()) }).await;
    }
    for url in [
        format!("{by_name}?sslmode=verify-full&sslrootcert={known}"),
        format!("{}?sslmode=verify-full&sslrootcert={other}", database.url()),
        format!("{}?sslmode=verify-ca&sslrootcert={other}", database.url()),
        format!("{}?sslmode=verify-full", database.url()),
    ] {
        let error = PostgresStore::open(options(url)).await.err().unwrap();
        assert!(matches!(error, PostgresOpenError::Tls { .. }), "{error:?}");
    }
    let missing = format!("{}?sslmode=verify-full&sslrootcert=/nowhere.pem", database.url());
    let error = PostgresStore::open(options(missing)).await.err().unwrap();
    assert!(matches!(error, PostgresOpenError::Roots { .. }), "{error:?}");
}

#[tokio::test]
async fn no_statement_of_the_writer_reads_a_whole_table() {
    let database = Cluster::shared().database();
    open(&database).await.close().await;
    for sql in statements::WRITER {
        let nulls = vec!["NULL"; sql.types.len()].join(", ");
        let types: Vec<String> = sql.types.iter().map(|known| named(known.name())).collect();
        let (types, given) = match types.is_empty() {
            true => (String::new(), String::new()),
            false => (format!("({})", types.join(", ")), format!("({nulls})")),
        };
        let plan = database.run(&format!(
            "SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; SET enable_hashjoin = off;
             SET enable_mergejoin = off; PREPARE p {types} AS {}; EXPLAIN EXECUTE p {given}",
            sql.text
        ));
        // There are never more than a few replicas.
        let small = |step: &&str| !step.contains("Seq Scan on replica");
        assert!(!plan.lines().filter(small).any(|step| step.contains("Seq Scan")), "{}\n{plan}", sql.text);
    }
}

/// An array's type as SQL writes it.
fn named(known: &str) -> String {
    known.strip_prefix('_').map_or_else(|| known.to_owned(), |element| format!("{element}[]"))
}

/// A replica is gone by its own lease, whatever the lease of the one that asks.
#[tokio::test(flavor = "multi_thread")]
async fn leases_may_differ_and_each_replica_is_judged_by_its_own() {
    let database = Cluster::shared().database();
    let patient =
        PostgresStore::open(Options { lease: Duration::from_secs(3_600), ..options(database.url()) }).await.unwrap();
    let hasty = open(&database).await;
    let asking = open(&database).await;
    let numbers = [patient.epoch().0, hasty.epoch().0];
    let task = put(&patient).await;
    patient.die().await;
    hasty.die().await;
    let alive = async |no: u64| asking.replicas().await.unwrap().into_iter().any(|row| row.no == no && row.alive);
    until("the one with the short lease is gone", async || (!alive(numbers[1]).await).then_some(())).await;
    assert!(alive(numbers[0]).await);
    assert_eq!(asking.orphans(None, 10).await.unwrap(), []);
    let db = ConnectTarget::new(&database.url(), false, &options(database.url())).unwrap().connect().await.unwrap();
    db.run("UPDATE rialto.replica SET lease_ms = 1000").await.unwrap();
    until("both are gone", async || (!alive(numbers[0]).await).then_some(())).await;
    assert_eq!(asking.orphans(None, 10).await.unwrap().len(), 1);
    assert_eq!(length(&asking, task).await, 1);
}

/// An unreadable row stays, and keeps no other row from its work.
#[tokio::test]
async fn a_row_that_cannot_be_read_stops_no_purge_and_no_delivery() {
    let database = Cluster::shared().database();
    let store = open(&database).await;
    let mut tasks = Vec::new();
    for _ in 0..3 {
        let mut append = opening();
        append.row = append.row.map(|row| IndexRow { state: State::Completed, running: false, settled: true, ..row });
        tasks.push(append.task);
        let config = model::PushRow {
            task: append.task,
            id: "c".into(),
            edition: 1,
            epoch: Epoch(0),
            spec: "s".into(),
            made_at: Time(1),
            progress: model::PushProgress::from(Seq(1), Time(1)),
        };
        let push = vec![model::PushChange::Put(config)];
        assert_eq!(store.commit(Commit { push, ..one(append) }).await, Outcome::Done);
    }
    let db = ConnectTarget::new(&database.url(), false, &options(database.url())).unwrap().connect().await.unwrap();
    db.run(&format!("UPDATE rialto.push SET id = '\\xff' WHERE task = '{}'", tasks[1].0)).await.unwrap();
    let mut adopted: Vec<TaskId> = store.adopt(None, 10).await.unwrap().into_iter().map(|row| row.task).collect();
    adopted.sort_unstable();
    let mut sound = vec![tasks[0], tasks[2]];
    sound.sort_unstable();
    assert_eq!(adopted, sound);
    db.run(&format!("UPDATE rialto.task SET state = 99 WHERE id = '{}'", tasks[1].0)).await.unwrap();
    assert_eq!(store.purge(Time(100), Time(0), 10).await.unwrap(), 2);
    assert_eq!((length(&store, tasks[0]).await, length(&store, tasks[2]).await), (0, 0));
    assert_eq!(store.lengths(vec![tasks[1]]).await.unwrap(), [Seq(1)]);
}
