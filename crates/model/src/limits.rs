//! Every limit in one place. The defaults are the product's; the config may set each.

/// How much of everything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// A request's body.
    pub body_bytes: usize,
    /// Nesting of a request's JSON.
    pub json_depth: usize,
    /// Nesting of a data part and of metadata, the object that it stands in counted.
    pub data_depth: usize,
    /// An id that a caller chooses: message, context.
    pub id_bytes: usize,
    /// Parts of one message or artifact chunk.
    pub parts: usize,
    /// A part above this is kept beside the log.
    pub blob_bytes: usize,
    /// Events an agent has emitted that are not yet committed; above it the agent waits.
    pub uncommitted_bytes: usize,
    /// The newest events of a live task, kept in memory for its subscribers.
    pub tail_bytes: usize,
    /// Memory of tasks at work together: their messages and artifacts, and their newest events once more.
    pub live_bytes: usize,
    /// Messages waiting on a working task.
    pub waiting_messages: u32,
    /// Everything an agent may emit in one turn.
    pub turn_bytes: usize,
    /// Tasks with a running turn, over all agents.
    pub running_turns: usize,
    /// A page of a list.
    pub page_size: u32,
    pub page_size_default: u32,
    /// A page of a list ends early here.
    pub page_bytes: usize,
    /// How long a settled task is kept.
    pub retention_ms: u64,
    /// How long an idempotency key is kept.
    pub idempotency_ms: u64,
    /// How long a turn may run.
    pub turn_timeout_ms: u64,
    /// How long an agent may take to stop after a cancel.
    pub cancel_grace_ms: u64,
    /// How often a turn is tried when its agent's rule is to retry.
    pub attempts: u32,
    /// How long a shutdown waits for running turns.
    pub drain_ms: u64,
    /// Parts of any media type are let through, whatever an agent says it reads.
    pub any_input_mode: bool,
    pub push: PushLimits,
}

/// How webhooks are delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PushLimits {
    /// Configs of one task.
    pub configs: usize,
    /// Deliveries at a time, in all and to one endpoint.
    pub deliveries: usize,
    pub deliveries_per_endpoint: usize,
    /// The first retry; each further one waits twice as long, with some jitter, up to `retry_most_ms`.
    pub retry_ms: u64,
    pub retry_most_ms: u64,
    /// An event that fails for so long is given up, and its config with it.
    pub give_up_ms: u64,
    /// After so many failures in a row an endpoint is left alone, at first for so long, then twice as long.
    pub breaker_failures: u32,
    pub breaker_ms: u64,
    pub breaker_most_ms: u64,
}

impl Default for PushLimits {
    fn default() -> Self {
        PushLimits {
            configs: 20,
            deliveries: 64,
            deliveries_per_endpoint: 32,
            retry_ms: 1_000,
            retry_most_ms: 3_600_000,
            give_up_ms: 24 * 3_600_000,
            breaker_failures: 5,
            breaker_ms: 10_000,
            breaker_most_ms: 300_000,
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            body_bytes: 10 << 20,
            json_depth: 128,
            data_depth: 48,
            id_bytes: 256,
            parts: 1_000,
            blob_bytes: 64 << 10,
            uncommitted_bytes: 1 << 20,
            tail_bytes: 256 << 10,
            live_bytes: 128 << 20,
            waiting_messages: 100,
            turn_bytes: 256 << 20,
            running_turns: 100_000,
            page_size: 100,
            page_size_default: 50,
            page_bytes: 16 << 20,
            retention_ms: 30 * 24 * 3_600_000,
            idempotency_ms: 24 * 3_600_000,
            turn_timeout_ms: 3_600_000,
            cancel_grace_ms: 5_000,
            attempts: 3,
            drain_ms: 4_000,
            any_input_mode: false,
            push: PushLimits::default(),
        }
    }
}
