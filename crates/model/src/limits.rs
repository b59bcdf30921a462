//! All limits, with the product's defaults; the config can set each.

/// The limits of the engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Size of a request's body.
    pub body_bytes: usize,
    /// Nesting of a request's JSON.
    pub json_depth: usize,
    /// Nesting of a data part and of metadata, counting the object that contains it.
    pub data_depth: usize,
    /// Length of an id that a caller chooses: message, context.
    pub id_bytes: usize,
    /// Parts of one message or artifact chunk.
    pub parts: usize,
    /// A larger part is stored as a blob, outside the log.
    pub blob_bytes: usize,
    /// Emitted events of an agent that are not yet committed; above it the agent waits.
    pub uncommitted_bytes: usize,
    /// Newest events of a live task held in memory for its subscribers.
    pub tail_bytes: usize,
    /// Memory of all live tasks together: their messages and artifacts, plus their newest events.
    pub live_bytes: usize,
    /// Messages waiting on a working task.
    pub waiting_messages: u32,
    /// Total output of an agent in one turn.
    pub turn_bytes: usize,
    /// Tasks with a running turn, over all agents.
    pub running_turns: usize,
    /// Tasks in a page of a list.
    pub page_size: u32,
    pub page_size_default: u32,
    /// Size at which a page of a list ends early.
    pub page_bytes: usize,
    /// How long a settled task is kept.
    pub retention_ms: u64,
    /// How long an idempotency key is kept.
    pub idempotency_ms: u64,
    /// How long a turn may run.
    pub turn_timeout_ms: u64,
    /// How long an agent may take to stop after a cancel.
    pub cancel_grace_ms: u64,
    /// Attempts of a turn whose agent's restart rule is to retry.
    pub attempts: u32,
    /// How long a shutdown waits for running turns.
    pub drain_ms: u64,
    /// Accept parts of any media type, regardless of the agent's input modes.
    pub any_input_mode: bool,
    pub push: PushLimits,
}

/// Limits of webhook delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PushLimits {
    /// Configs of one task.
    pub configs: usize,
    /// Concurrent deliveries: in total, and to one endpoint.
    pub deliveries: usize,
    pub deliveries_per_endpoint: usize,
    /// Delay of the first retry; each further delay doubles, with some jitter, up to `retry_most_ms`.
    pub retry_ms: u64,
    pub retry_most_ms: u64,
    /// An event that has failed for this long is given up together with its config.
    pub give_up_ms: u64,
    /// After this many consecutive failures the endpoint's breaker opens, first for `breaker_ms`, then twice as long
    /// each time.
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
