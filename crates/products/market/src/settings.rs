//! Settings of the market's endpoints.

/// Settings of UUMit's endpoints: `/api/v1`, `/uumit`, and the shared address `/a2a`.
#[derive(Clone, Debug)]
pub struct MarketSettings {
    pub market: crate::service::Market,
    /// The JSON-RPC error code of a step that the purchase's status does not permit.
    pub invalid_state_code: i32,
    /// How long a subscription stays open while its purchase is under way.
    pub window_ms: u64,
    /// Limit of REST requests per minute, for each key or, without a key, each address; unlimited if absent.
    pub requests_per_minute: Option<u32>,
}

impl MarketSettings {
    pub fn new(market: crate::service::Market) -> MarketSettings {
        MarketSettings { market, invalid_state_code: -32602, window_ms: 60_000, requests_per_minute: None }
    }
}
