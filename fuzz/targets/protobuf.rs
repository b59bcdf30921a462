//! Messages of gRPC requests, in both packages. What is read can be written and read again.
#![no_main]

use dialects::PROTO_WIRES;
use dialects::protobuf::{FieldValue, ProtoWriter, value};
use libfuzzer_sys::fuzz_target;
use model::Limits;

fuzz_target!(|bytes: &[u8]| {
    let Some((choice, message)) = bytes.split_first() else { return };
    let limits = Limits::default();
    let methods = PROTO_WIRES.iter().flat_map(|wire| wire.methods().iter().map(move |(_, method)| (wire, *method)));
    let count = methods.clone().count();
    if let Some((wire, operation)) = methods.into_iter().nth(usize::from(*choice) % (count + 1)) {
        let _ = wire.decode(operation, message, &limits);
    } else if let Ok(json) = value::read_value(FieldValue::Bytes(message), "data", limits.json_depth) {
        let mut w = ProtoWriter::default();
        w.value(1, json.text());
        let written = w.finish();
        let mut fields = dialects::protobuf::Fields::new(&written);
        let field = fields.next_field().expect("what is written can be read").expect("one field").1;
        value::read_value(field, "data", limits.json_depth).expect("what is written can be read");
    }
});
