//! Paths and query strings of HTTP+JSON.
#![no_main]

use dialects::framing::query;
use dialects::wire::JsonWire;
use libfuzzer_sys::fuzz_target;
use model::Limits;

fuzz_target!(|text: &str| {
    let _ = query::pairs(text).count();
    let _ = query::value(text, "historyLength");
    let _ = query::decode_segment(text);
    let (path, query) = text.split_once('?').map_or((text, None), |(path, query)| (path, Some(query)));
    for verb in ["GET", "POST", "DELETE"] {
        let Ok(wire) = dialects::decide_route(path, None) else { continue };
        let wire: &dyn JsonWire = wire;
        if let Ok(route) = wire.route(verb, path, query) {
            let _ = route.decode("{}", &Limits::default());
        }
    }
});
