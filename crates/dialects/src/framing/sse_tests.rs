//! Tests of `sse`.

use proptest::prelude::*;

use super::*;

fn parsed<'a>(limit: usize, pieces: impl IntoIterator<Item = &'a [u8]>) -> Result<Vec<SseFrame>, FrameTooLong> {
    let mut parser = Parser::new(limit);
    let mut frames = Vec::new();
    for piece in pieces {
        parser.push(piece, &mut frames)?;
    }
    Ok(frames)
}

fn data(frames: &[SseFrame]) -> Vec<&str> {
    frames.iter().map(|frame| frame.data.as_str()).collect()
}

#[test]
fn a_written_frame_reads_back() {
    let mut out = Vec::new();
    write_frame(&mut out, Some("t.7"), Some("error"), &[b"{\"a\":", b"1}"]);
    out.put_slice(HEARTBEAT);
    write_frame(&mut out, None::<&str>, None, &[b"x"]);
    assert_eq!(String::from_utf8_lossy(&out), "id: t.7\nevent: error\ndata: {\"a\":1}\n\n: ping\n\ndata: x\n\n");
    let frames = parsed(100, [out.as_slice()]).unwrap();
    assert_eq!(
        frames,
        [
            SseFrame { id: Some("t.7".into()), event: Some("error".into()), data: "{\"a\":1}".into() },
            SseFrame { id: None, event: None, data: "x".into() },
        ]
    );
}

#[test]
fn every_line_ending_counts_and_data_lines_join() {
    for end in ["\n", "\r\n", "\r"] {
        let text = ["\u{feff}data: a", ": c", "data:b", "data", "retry: 5", "", "", "data: z", "", ""].join(end);
        assert_eq!(data(&parsed(100, [text.as_bytes()]).unwrap()), ["a\nb\n", "z"], "{end:?}");
    }
}

#[test]
fn a_frame_without_data_or_without_end_is_none() {
    assert!(parsed(100, [b"event: x\nid: 1\n\ndata: unfinished\n".as_slice()]).unwrap().is_empty());
    assert_eq!(parsed(100, [b"event: x\n\ndata: y\n\n".as_slice()]).unwrap()[0].event, None);
}

#[test]
fn a_frame_over_the_limit_is_refused_but_comments_are_free() {
    let pings = b": ping ping ping\n".repeat(50);
    assert!(parsed(20, [pings.as_slice(), b"data: 0123456789\n\n"]).is_ok());
    assert_eq!(parsed(20, [b"data: 0123456789\ndata: 0123456789\n\n".as_slice()]), Err(FrameTooLong { limit: 20 }));
    assert_eq!(parsed(20, std::iter::repeat_n(b"aaaa".as_slice(), 6)), Err(FrameTooLong { limit: 20 }));
}

proptest! {
    #[test]
    fn frames_do_not_depend_on_where_the_stream_is_cut(
        text in "((data|id|event|retry|x)?(:| |a|é|\\{)*(\r\n|\n|\r)){0,30}",
        cuts in prop::collection::vec(0usize..10, 0..60),
    ) {
        let whole = parsed(10_000, [text.as_bytes()]);
        let mut pieces = Vec::new();
        let mut rest = text.as_bytes();
        for cut in cuts {
            let (piece, after) = rest.split_at(cut.min(rest.len()));
            pieces.push(piece);
            rest = after;
        }
        pieces.push(rest);
        prop_assert_eq!(parsed(10_000, pieces), whole);
    }

    #[test]
    fn any_bytes_are_read_without_harm(pieces: Vec<Vec<u8>>) {
        let _ = parsed(64, pieces.iter().map(Vec::as_slice));
    }
}
