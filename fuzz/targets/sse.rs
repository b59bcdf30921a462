//! The parser of event streams: the same frames come out, however the bytes are cut.
#![no_main]

use dialects::framing::sse::Parser;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((cut, stream)) = bytes.split_first() else { return };
    let (mut whole, mut frames) = (Parser::new(1 << 12), Vec::new());
    let ended = whole.push(stream, &mut frames).is_err();
    let (mut pieces, mut others) = (Parser::new(1 << 12), Vec::new());
    let size = usize::from(*cut).max(1);
    let broken = stream.chunks(size).any(|piece| pieces.push(piece, &mut others).is_err());
    if !ended && !broken {
        assert_eq!(format!("{frames:?}"), format!("{others:?}"));
    }
});
