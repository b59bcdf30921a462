//! The turns of an agent in this process: how many, how long they take, and how they end.

use model::ports::agent::AgentLoad;
use model::ports::worker::Attendance;
use schemars::JsonSchema;
use serde::Serialize;

use super::ApiContext;
use super::history::ms;
use crate::history::RecentTurns;

/// Turns that failed in a row, after which an agent counts as failing.
const FAILING: u64 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "AgentHealth")]
pub(super) enum ApiAgentHealth {
    /// The last turn did not fail, or only few did in a row.
    Ok,
    /// No turn has ended yet.
    Unused,
    /// Every slot is taken, and turns wait.
    Busy,
    /// Workers run its turns, and none is there.
    Unattended,
    /// The last turns all failed.
    Failing,
}

/// Turns that ended. Times are in milliseconds, and at most 25 % too high; null without turns.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "EndedTurns")]
pub(super) struct ApiEndedTurns {
    ended: u64,
    failed: u64,
    p50_ms: Option<f64>,
    p99_ms: Option<f64>,
}

/// A worker that is connected or has a turn.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Worker")]
pub(super) struct ApiWorker {
    name: String,
    /// Its requests that wait for a turn.
    connections: u32,
    /// The turns it has leased.
    turns: u32,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Workers")]
pub(super) struct ApiWorkers {
    /// Turns that no worker has leased yet.
    waiting: u64,
    online: Vec<ApiWorker>,
}

/// The turns of an agent in the process that answers.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "AgentLoad")]
pub(super) struct ApiAgentLoad {
    health: ApiAgentHealth,
    /// Turns at work, and the most of them.
    running: u32,
    slots: u32,
    /// Turns that wait for a slot, and the most of them.
    waiting: u32,
    queue: u32,
    /// Messages that were refused because the queue was full.
    refused: u64,
    /// Those at the end that failed one after the other.
    failed_in_a_row: u64,
    since_start: ApiEndedTurns,
    /// In the last five to ten minutes.
    recent: ApiEndedTurns,
    /// Limits of one turn; without one of its own, the limit of the server.
    turn_timeout_ms: u64,
    attempts: u32,
    output_bytes: usize,
    /// Null where this server runs the turns.
    workers: Option<ApiWorkers>,
}

impl From<RecentTurns> for ApiEndedTurns {
    fn from(turns: RecentTurns) -> ApiEndedTurns {
        let RecentTurns { ended, failed, p50_us, p99_us } = turns;
        ApiEndedTurns { ended, failed, p50_ms: ms(p50_us), p99_ms: ms(p99_us) }
    }
}

impl From<Attendance> for ApiWorkers {
    fn from(attendance: Attendance) -> ApiWorkers {
        let worker = |one: model::ports::worker::WorkerPresence| ApiWorker {
            name: one.name,
            connections: one.connections,
            turns: one.turns,
        };
        ApiWorkers { waiting: attendance.waiting, online: attendance.workers.into_iter().map(worker).collect() }
    }
}

fn health(load: &AgentLoad, workers: Option<&ApiWorkers>) -> ApiAgentHealth {
    if load.failed_in_a_row >= FAILING {
        ApiAgentHealth::Failing
    } else if workers.is_some_and(|workers| workers.online.is_empty()) {
        ApiAgentHealth::Unattended
    } else if load.running >= load.slots && load.waiting > 0 {
        ApiAgentHealth::Busy
    } else if load.ended == 0 {
        ApiAgentHealth::Unused
    } else {
        ApiAgentHealth::Ok
    }
}

/// The load of an agent, where it is counted; turns of every tenant are in it, so that a caller of one gets none.
pub(super) fn of(context: &ApiContext<'_>, agent: &str) -> Option<ApiAgentLoad> {
    let server = context.server;
    let load = server.engine.load(agent).filter(|_| context.tenant().is_none())?;
    let workers = server.engine.desk(agent).map(|desk| ApiWorkers::from(desk.attendance()));
    let limits = server.engine.limits();
    let recent = server.history.recent(agent, &load);
    Some(ApiAgentLoad {
        health: health(&load, workers.as_ref()),
        running: load.running,
        slots: load.slots,
        waiting: load.waiting,
        queue: load.queue,
        refused: load.refused,
        failed_in_a_row: load.failed_in_a_row,
        since_start: ApiEndedTurns {
            ended: load.ended,
            failed: load.failed,
            p50_ms: ms(load.latency.quantile(0.5)),
            p99_ms: ms(load.latency.quantile(0.99)),
        },
        recent: recent.into(),
        turn_timeout_ms: load.timeout_ms.map_or(limits.turn_timeout_ms, |own| own.min(limits.turn_timeout_ms)),
        attempts: load.attempts.map_or(limits.attempts, |own| own.min(limits.attempts)),
        output_bytes: load.output_bytes.min(limits.turn_bytes),
        workers,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_that_holds_is_the_health() {
        let workers = |online: usize| ApiWorkers {
            waiting: 0,
            online: (0..online).map(|_| ApiWorker { name: "w".into(), connections: 1, turns: 0 }).collect(),
        };
        let load = |running, waiting, ended, failed_in_a_row| AgentLoad {
            running,
            slots: 2,
            waiting,
            ended,
            failed_in_a_row,
            ..AgentLoad::default()
        };
        for (load, online, expected) in [
            (load(0, 0, 0, 0), None, ApiAgentHealth::Unused),
            (load(2, 0, 5, 2), None, ApiAgentHealth::Ok),
            (load(2, 1, 5, 0), None, ApiAgentHealth::Busy),
            (load(0, 0, 5, 0), Some(0), ApiAgentHealth::Unattended),
            (load(0, 0, 5, 0), Some(1), ApiAgentHealth::Ok),
            (load(2, 1, 5, 3), Some(0), ApiAgentHealth::Failing),
        ] {
            assert_eq!(health(&load, online.map(workers).as_ref()), expected, "{load:?}");
        }
    }
}
