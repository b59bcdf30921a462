//! Replicas of a shared store: the lease of this process, and which of the others are gone.
//!
//! A replica has a row with the time of its last sign of life, on the database's clock. It is gone when the row says that it
//! left, or when that time is older than the lease. Two rules protect live replicas: for one lease after the database has
//! started no replica counts as gone, because none could renew its lease; and a replica that was cut off declares no other
//! gone for one lease. This only saves work: epochs decide between two replicas that both claim the same turn.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use futures_util::stream::BoxStream;
use model::ports::Future;
use model::ports::store::{Hint, ReplicaRow, Replicas, StoreError, Versions};
use model::{Epoch, PushRow, PushStanding, TaskId};
use parking_lot::Mutex;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, MissedTickBehavior};
use tokio_postgres::types::Type;

use super::connect::{Conn, ConnectError, ConnectTarget, Sql};
use super::notify::{self, HintListener, LISTEN, ReplicaMessage};
use super::{PostgresStore, fence, push, read, schema};

/// Whether the replica of number `$no` is gone: the asker's lease in milliseconds, and whether it may judge. A replica is
/// judged by its own lease, so that leases may differ; one of a release before did not say its own.
macro_rules! is_gone {
    ($no:literal, $lease:literal, $judges:literal) => {
        concat!(
            "NOT EXISTS (SELECT 1 FROM rialto.replica WHERE replica.no = ",
            $no,
            " AND NOT replica.has_left AND (NOT ",
            $judges,
            " OR replica.beat_at >= statement_timestamp() - coalesce(replica.lease_ms::float8, ",
            $lease,
            ") * interval '1 millisecond' OR pg_postmaster_start_time() >= statement_timestamp() - coalesce(replica.lease_ms::float8, ",
            $lease,
            ") * interval '1 millisecond'))"
        )
    };
}
pub(super) use is_gone;

/// Signs of life in one lease.
const BEATS: u32 = 5;
/// A database is out of reach after so long without a sign of life, however short the lease is.
const LEAST_SILENCE: Duration = Duration::from_secs(2);
/// Rows of replicas that are gone are kept this long.
const KEPT: &str = "1 hour";
/// Looking for such rows once in so many beats is enough.
const CLEAN_EVERY: u32 = 300;
/// The smallest change of the clock difference that is applied; smaller changes are network jitter.
const JITTER_MS: i64 = 5;
/// Clock samples that are compared; of them the one with the shortest round trip counts.
const SAMPLES: usize = 8;

/// No replica enters a store that a migration is still filling.
static ENTER: Sql = Sql {
    text: concat!(
        "INSERT INTO rialto.replica (no, slot, beat_at, has_left, lease_ms)
         SELECT nextval('rialto.replica_no'),
                (SELECT min(free.slot) FROM generate_series(0, (SELECT count(*) FROM rialto.replica)) AS free (slot)
                 WHERE NOT EXISTS (SELECT 1 FROM rialto.replica AS other WHERE other.slot = free.slot AND NOT ",
        is_gone!("other.no", "$1", "true"),
        ")), clock_timestamp(), false, $1::bigint
         WHERE NOT EXISTS (SELECT 1 FROM rialto.migration WHERE finished_at IS NULL)
         RETURNING no, slot"
    ),
    types: &[Type::FLOAT8],
};

/// A sign of life. Answers the time since the last one (null if the row was gone) and the database's clock.
static BEAT: Sql = Sql {
    text: "WITH old AS (SELECT beat_at FROM rialto.replica WHERE no = $1), new AS (
             INSERT INTO rialto.replica (no, slot, beat_at, has_left, lease_ms, about)
             VALUES ($1, $2, clock_timestamp(), false, $3, $4)
             ON CONFLICT (no) DO UPDATE SET beat_at = excluded.beat_at, about = coalesce(excluded.about, replica.about)
             RETURNING beat_at
           )
           SELECT (extract(epoch FROM new.beat_at - old.beat_at) * 1000)::float8,
                  (extract(epoch FROM clock_timestamp()) * 1000)::float8
           FROM new LEFT JOIN old ON true",
    types: &[Type::INT8, Type::INT4, Type::INT8, Type::BYTEA],
};
static OTHERS: Sql = Sql {
    text: concat!("SELECT no, ", is_gone!("seen.no", "$2", "$3"), " FROM rialto.replica AS seen WHERE no <> $1"),
    types: &[Type::INT8, Type::FLOAT8, Type::BOOL],
};
static LEAVE: Sql = Sql { text: "UPDATE rialto.replica SET has_left = true WHERE no = $1", types: &[Type::INT8] };

/// Who asks whether others are gone.
#[derive(Clone, Copy)]
pub(super) struct Liveness {
    pub(super) me: i64,
    pub(super) lease_ms: f64,
    pub(super) judges: bool,
}

/// This process, as the others know it.
pub(super) struct Replica {
    pub(super) no: i64,
    pub(super) slot: i32,
    lease: Duration,
    ahead_ms: AtomicI64,
    /// When it entered: the beginning of its own time.
    entered: Instant,
    /// When the last sign of life that arrived was sent, in milliseconds of its own time; and how many leases there were.
    renewed_ms: AtomicU64,
    leases: AtomicU64,
    /// The replica was cut off: until then it takes no other for gone.
    biased_until: Mutex<Option<Instant>>,
    about: Mutex<About>,
}

/// A replica's description of itself.
#[derive(Default)]
struct About {
    text: Option<Arc<str>>,
    is_said: bool,
}

impl Replica {
    /// Registers the replica under a new number. `None` if a migration into the store is not finished.
    pub(super) async fn enter(db: &Conn, lease: Duration) -> Result<Option<Replica>, tokio_postgres::Error> {
        db.begin().await?;
        db.query(&schema::LOCK, []).await?;
        let rows = db.query(&ENTER, [&millis(lease)]).await?;
        db.run("COMMIT").await?;
        Ok(rows.first().map(|row| Replica {
            no: row.get(0),
            slot: row.get(1),
            lease,
            ahead_ms: AtomicI64::new(0),
            entered: Instant::now(),
            renewed_ms: AtomicU64::new(0),
            leases: AtomicU64::new(0),
            biased_until: Mutex::default(),
            about: Mutex::default(),
        }))
    }

    /// Said with the next sign of life.
    pub(super) fn introduce(&self, about: String) {
        *self.about.lock() = About { text: Some(about.into()), is_said: false };
    }

    fn unsaid(&self) -> Option<Arc<str>> {
        let about = self.about.lock();
        if about.is_said { None } else { about.text.clone() }
    }

    /// The row has what was said. One that was gone is new and has only this.
    fn said(&self, text: Option<Arc<str>>, was_there: bool) {
        let mut about = self.about.lock();
        about.is_said = match (text, &about.text) {
            (Some(said), Some(now)) => Arc::ptr_eq(&said, now),
            (None, _) => about.is_said && was_there,
            (Some(_), None) => false,
        };
    }

    /// The number of the lease it works under, while that holds. By its own time, measured from before the last sign of
    /// life was sent, so that no other replica finds it gone before it finds that itself.
    pub(super) fn tenure(&self) -> Option<u64> {
        // In this order: a time that was moved on comes with the number that was raised before.
        self.is_within_lease(Instant::now()).then(|| self.leases.load(Ordering::Acquire))
    }

    fn is_within_lease(&self, now: Instant) -> bool {
        let renewed = Duration::from_millis(self.renewed_ms.load(Ordering::Acquire));
        now.saturating_duration_since(self.entered) < renewed + self.lease
    }

    /// A sign of life that was sent at `sent` has arrived. Answers whether the lease had run out by then: another begins.
    fn renew(&self, sent: Instant, ran_out: bool) -> bool {
        let ran_out = ran_out || !self.is_within_lease(sent);
        if ran_out {
            // Before the time is updated: a reader of the new time also reads the new number.
            self.leases.fetch_add(1, Ordering::AcqRel);
        }
        let sent_ms = sent.saturating_duration_since(self.entered).as_millis() as u64;
        self.renewed_ms.fetch_max(sent_ms, Ordering::AcqRel);
        ran_out
    }

    /// Whether a sign of life is missing: two of them should have arrived since the last one did. A database that is only
    /// busy answers late, so a short lease leaves it more time than that.
    pub(super) fn is_silent(&self) -> bool {
        let renewed = Duration::from_millis(self.renewed_ms.load(Ordering::Acquire));
        self.entered.elapsed() > renewed + (self.lease * 2 / BEATS).max(LEAST_SILENCE)
    }

    pub(super) fn ahead_ms(&self) -> i64 {
        self.ahead_ms.load(Ordering::Relaxed)
    }

    pub(super) fn liveness(&self) -> Liveness {
        let judges = self.biased_until.lock().is_none_or(|until| Instant::now() >= until);
        Liveness { me: self.no, lease_ms: millis(self.lease), judges }
    }
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// Returns when the store closes, or its handle is gone.
async fn until_leaving(leaving: &mut watch::Receiver<bool>) {
    let _ = leaving.wait_for(|leaving| *leaving).await;
}

/// Renews the lease and receives the notifications of other replicas. Both use one connection: a replica that cannot renew
/// is not notified either.
pub(super) struct LeaseKeeper {
    pub(super) replica: Arc<Replica>,
    pub(super) target: Arc<ConnectTarget>,
    pub(super) listener: Arc<HintListener>,
    known_gone: HashSet<i64>,
    clocks: Clocks,
    beats: u32,
}

impl LeaseKeeper {
    pub(super) fn new(replica: Arc<Replica>, target: Arc<ConnectTarget>, listener: Arc<HintListener>) -> LeaseKeeper {
        LeaseKeeper { replica, target, listener, known_gone: HashSet::new(), clocks: Clocks::default(), beats: 0 }
    }

    /// The first heartbeat, before the store is used. Replicas that are gone by now are found by reading orphans.
    pub(super) async fn start(&mut self, db: &Conn) -> Result<(), ConnectError> {
        db.run(LISTEN).await?;
        self.beat(db, false).await
    }

    /// Until `leaving` says so, or the store is dropped.
    pub(super) async fn run(mut self, connection: (Conn, mpsc::Receiver<String>), mut leaving: watch::Receiver<bool>) {
        let mut connection = Some(connection);
        let mut ticks = tokio::time::interval(self.replica.lease / BEATS);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut pause = Duration::ZERO;
        loop {
            let Some((db, heard)) = &mut connection else {
                let again = async {
                    tokio::time::sleep(pause).await;
                    self.reconnect().await
                };
                let tried = tokio::select! {
                    tried = again => tried,
                    () = until_leaving(&mut leaving) => return,
                };
                match tried {
                    Ok(new) => (connection, pause) = (Some(new), Duration::ZERO),
                    Err(fault) => {
                        if pause.is_zero() {
                            tracing::warn!(%fault, "lease cannot be renewed: the database cannot be reached");
                        }
                        pause = (pause * 2).clamp(Duration::from_millis(50), self.replica.lease / BEATS);
                    }
                }
                continue;
            };
            let alive = tokio::select! {
                biased;
                () = until_leaving(&mut leaving) => {
                    self.leave(db).await;
                    return;
                }
                _ = ticks.tick() => match self.beat(db, true).await {
                    Ok(()) => true,
                    Err(fault) => {
                        tracing::warn!(%fault, "lease renewal failed");
                        false
                    }
                },
                payload = heard.recv() => match payload {
                    Some(payload) => {
                        self.offer(&payload);
                        true
                    }
                    None => false,
                },
            };
            if !alive {
                connection = None;
            }
        }
    }

    async fn reconnect(&mut self) -> Result<(Conn, mpsc::Receiver<String>), ConnectError> {
        let listening = async {
            let (db, heard) = self.target.listen().await?;
            db.run(LISTEN).await?;
            Ok::<_, ConnectError>((db, heard))
        };
        let (db, heard) =
            tokio::time::timeout(self.replica.lease, listening).await.map_err(|_| ConnectError::Slow)??;
        self.beat(&db, true).await?;
        // Notifications in between are not repeated.
        self.listener.offer(Hint::Missed);
        Ok((db, heard))
    }

    async fn leave(&self, db: &Conn) {
        let left = async {
            db.execute(&LEAVE, [&self.replica.no]).await?;
            notify::send_messages(db, self.replica.no, &[ReplicaMessage::Left]).await
        };
        // Without a message, the others find out by the lease.
        match tokio::time::timeout(self.replica.lease, left).await {
            Ok(Ok(())) => {}
            Ok(Err(fault)) => tracing::info!(%fault, "left without a notification to the other replicas"),
            Err(_) => tracing::info!("left without a notification to the other replicas"),
        }
    }

    /// Gives a sign of life and looks at the others'.
    async fn beat(&mut self, db: &Conn, tell: bool) -> Result<(), ConnectError> {
        let sent = Instant::now();
        let looked = tokio::time::timeout(self.replica.lease * 3 / BEATS, self.look(db));
        let (age_ms, others) = looked.await.map_err(|_| ConnectError::Slow)??;
        let lease_ms = millis(self.replica.lease);
        if self.replica.renew(sent, age_ms.is_none_or(|age| age > lease_ms)) && tell {
            *self.replica.biased_until.lock() = Some(Instant::now() + self.replica.lease);
            tracing::warn!("lease lost: it was not renewed in time, and other replicas may have taken over");
            self.listener.offer(Hint::CutOff);
        }
        self.known_gone.retain(|no| others.iter().any(|(other, gone)| other == no && *gone));
        let mut found = false;
        for (no, _) in others.iter().filter(|(_, gone)| *gone) {
            found |= self.known_gone.insert(*no);
        }
        if found && tell {
            self.listener.offer(Hint::Gone);
        }
        self.listener.remind();
        self.beats = self.beats.wrapping_add(1);
        if self.beats.is_multiple_of(CLEAN_EVERY) {
            let old = format!("DELETE FROM rialto.replica WHERE beat_at < statement_timestamp() - interval '{KEPT}'");
            db.run(&old).await?;
            db.run(fence::CLEAN).await?;
        }
        Ok(())
    }

    async fn look(&mut self, db: &Conn) -> Result<(Option<f64>, Vec<(i64, bool)>), tokio_postgres::Error> {
        let liveness = self.replica.liveness();
        let asked = (SystemTime::now(), Instant::now());
        let (lease_ms, about) = (self.replica.lease.as_millis() as i64, self.replica.unsaid());
        let said = about.as_deref().map(str::as_bytes);
        let beaten = db.query(&BEAT, [&liveness.me, &self.replica.slot, &lease_ms, &said]).await?;
        let round_trip = asked.1.elapsed();
        let mut age_ms = None;
        if let Some(row) = beaten.first() {
            age_ms = row.try_get(0)?;
            self.replica.said(about, age_ms.is_some());
            self.clocks.sample(asked.0, round_trip, row.try_get(1)?, &self.replica.ahead_ms);
        }
        let others = db.query(&OTHERS, [&liveness.me, &liveness.lease_ms, &liveness.judges]).await?;
        let others = others.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect::<Result<_, _>>()?;
        Ok((age_ms, others))
    }

    fn offer(&mut self, payload: &str) {
        // An empty one stands for those that were too many.
        if payload.is_empty() {
            self.listener.offer(Hint::Missed);
            return;
        }
        let Some((sender, messages)) = notify::unpack(payload) else {
            tracing::debug!("ignoring a notification of an unknown kind");
            return;
        };
        if sender == self.replica.no {
            return;
        }
        for message in messages {
            match message {
                ReplicaMessage::Hint(hint) => self.listener.offer(hint),
                ReplicaMessage::Left => {
                    if self.known_gone.insert(sender) {
                        self.listener.offer(Hint::Gone);
                    }
                }
            }
        }
    }
}

/// How far the database's clock is ahead of ours, without the network's unevenness.
#[derive(Default)]
struct Clocks(Vec<(Duration, i64)>);

impl Clocks {
    fn sample(&mut self, asked: SystemTime, round_trip: Duration, clock_ms: f64, known: &AtomicI64) {
        let ours = asked.duration_since(SystemTime::UNIX_EPOCH).map_or(0.0, millis) + millis(round_trip) / 2.0;
        let ahead = (clock_ms - ours).round() as i64;
        let current = known.load(Ordering::Relaxed);
        // Further off than the round trip can explain: a clock was set.
        if (ahead - current).abs() > round_trip.as_millis() as i64 + 50 {
            self.0.clear();
        }
        if self.0.len() == SAMPLES {
            self.0.remove(0);
        }
        self.0.push((round_trip, ahead));
        let best = self.0.iter().min_by_key(|(round_trip, _)| *round_trip).map_or(ahead, |(_, ahead)| *ahead);
        if (best - current).abs() > JITTER_MS {
            known.store(best, Ordering::Relaxed);
        }
    }
}

impl Replicas for PostgresStore {
    fn orphans(&self, after: Option<TaskId>, limit: usize) -> Future<'_, Result<Vec<(TaskId, Epoch)>, StoreError>> {
        let liveness = self.shared.replica.liveness();
        self.read(move |db| async move { read::orphans(&db, &liveness, after, limit).await })
    }

    fn adopt(&self, after: Option<(TaskId, Arc<str>)>, limit: usize) -> Future<'_, Result<Vec<PushRow>, StoreError>> {
        let liveness = self.shared.replica.liveness();
        self.read(move |db| {
            let after = after.clone();
            async move { push::adopt(&db, &liveness, after.as_ref(), limit).await }
        })
    }

    fn standings(&self, configs: Vec<(TaskId, Arc<str>)>) -> Future<'_, Result<Vec<Option<PushStanding>>, StoreError>> {
        let (me, configs) = (self.shared.replica.no, Arc::<[_]>::from(configs));
        self.read(move |db| {
            let configs = configs.clone();
            async move { push::standings(&db, me, &configs).await }
        })
    }

    fn tenure(&self) -> Option<u64> {
        self.shared.replica.tenure()
    }

    fn held(&self, after: Option<TaskId>, limit: usize) -> Future<'_, Result<Vec<(TaskId, Epoch)>, StoreError>> {
        let me = self.shared.replica.no;
        self.read(move |db| async move { read::held_by(&db, me, after, limit).await })
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn hints(&self) -> BoxStream<'static, Hint> {
        self.listener.stream()
    }

    fn versions(&self) -> Future<'_, Result<Versions, StoreError>> {
        self.read(move |db| async move { read::versions(&db).await })
    }

    fn introduce(&self, about: String) {
        self.shared.replica.introduce(about);
    }

    fn replicas(&self) -> Future<'_, Result<Vec<ReplicaRow>, StoreError>> {
        let liveness = self.shared.replica.liveness();
        self.read(move |db| async move { read::replicas(&db, &liveness).await })
    }

    fn remember<'a>(&'a self, name: &'a str, value: &'a str) -> Future<'a, Result<String, StoreError>> {
        self.read(move |db| async move { read::remember(&db, name, value).await })
    }

    fn recall<'a>(&'a self, name: &'a str) -> Future<'a, Result<Option<String>, StoreError>> {
        self.read(move |db| async move { read::recall(&db, name).await })
    }

    fn ahead_ms(&self) -> i64 {
        self.shared.replica.ahead_ms()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_distance_of_clocks_ignores_the_network_and_follows_a_clock_that_is_set() {
        let (known, mut clocks) = (AtomicI64::new(0), Clocks::default());
        let mut measure = |round_trip: u64, ahead: f64| {
            let (asked, round_trip) = (SystemTime::now(), Duration::from_millis(round_trip));
            let ours = millis(asked.duration_since(SystemTime::UNIX_EPOCH).unwrap());
            clocks.sample(asked, round_trip, ours + millis(round_trip) / 2.0 + ahead, &known);
            known.load(Ordering::Relaxed)
        };
        assert_eq!(measure(2, 1_000.0), 1_000);
        assert_eq!(measure(2, 1_004.0), 1_000);
        assert_eq!(measure(2, 997.0), 1_000);
        // A slow answer says little.
        assert_eq!(measure(400, 1_190.0), 1_000);
        assert_eq!(measure(2, 5_000.0), 5_000);
        assert_eq!(measure(2, -60_000.0), -60_000);
    }
}
