//! The settings of the market's endpoints.

/// UUMit's endpoints: `/api/v1`, `/uumit`, and its rows at `/a2a`.
#[derive(Clone, Debug)]
pub struct MarketSettings {
    pub market: crate::service::Market,
    /// The JSON-RPC code of what cannot be done any more, or not yet.
    pub invalid_state_code: i32,
    /// How long a subscription without an end stays open.
    pub window_ms: u64,
    /// Requests a minute of one key, else of one address; none by default.
    pub requests_per_minute: Option<u32>,
}

impl MarketSettings {
    pub fn new(market: crate::service::Market) -> MarketSettings {
        MarketSettings { market, invalid_state_code: -32602, window_ms: 60_000, requests_per_minute: None }
    }
}
