//! Envelopes and params of every generation over JSON-RPC.
#![no_main]

use dialects::WIRES;
use dialects::framing::{jsonrpc, scan};
use dialects::wire::Operation;
use libfuzzer_sys::fuzz_target;
use model::Limits;
use serde_json::value::RawValue;

fuzz_target!(|bytes: &[u8]| {
    let limits = Limits::default();
    let Ok(text) = scan::scan(bytes, limits.json_depth) else { return };
    let Ok(request) = jsonrpc::read(text) else { return };
    for wire in WIRES {
        if let Err(fault) = wire.decode_rpc(&request.method, request.params, &limits) {
            let mut answer = Vec::new();
            wire.rpc_error(&mut answer, &request.id, &fault, Operation::Unknown);
            // Not a `Value`: the id is repeated as it came, and may be a number that no type holds.
            serde_json::from_slice::<&RawValue>(&answer).expect("an error is JSON");
        }
    }
});
