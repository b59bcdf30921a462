//! Tests of the gateway with its products: see `tests/server`. The crate itself is empty.
