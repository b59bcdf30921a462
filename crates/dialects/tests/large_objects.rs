//! Large content is referred to, not looked at; old dialects must wrap only what is no object.
#![allow(clippy::unwrap_used)]

use dialects::framing::json::{Segment, Writer};
use dialects::wire::TaskView;
use model::{Artifact, Blob, BlobKind, Body, Content, Event, Part, Seq, Task, Time};
use std::sync::Arc;

fn shown(dialect: &str, kind: BlobKind) -> String {
    let opened =
        r#"{"i":"0190f3c4-1111-7222-8333-444455556666","c":"c","g":"echo","t":"t","o":"o","v":[],"d":"a2a_v1"}"#;
    let body = Body::Opened(serde_json::from_str(opened).unwrap());
    let mut task = Task::open(&Event { seq: Seq(1), at: Time(0), body }).unwrap();
    let blob = Part::new(Content::Blob(Blob { kind, hash: [1; 32], len: 70_000 }));
    task.artifacts = vec![Arc::new(Artifact {
        id: "a".into(),
        name: None,
        description: None,
        parts: vec![blob],
        metadata: None,
        extensions: Vec::new(),
    })];
    let mut w = Writer::new();
    dialects::wire(dialect).unwrap().task(&mut w, &task, &TaskView::WHOLE, None);
    let segments = w.finish().into_segments().into_iter().map(|segment| match segment {
        Segment::Bytes(bytes) => String::from_utf8(bytes.to_vec()).unwrap(),
        Segment::Blob(_) | Segment::File(_) => "«content»".to_owned(),
    });
    segments.collect()
}

#[test]
fn a_large_object_is_shown_as_it_is_and_anything_else_is_wrapped_where_objects_are_wanted() {
    for dialect in ["a2a_v1", "a2a_v0_3", "a2a_v0_3_rest", "a2a_v0_1", "a2a_v0"] {
        let object = shown(dialect, BlobKind::Object);
        assert!(object.contains(r#""data":«content»"#), "{dialect}: {object}");
        assert!(!object.contains("data_part_compat"), "{dialect}: {object}");
        let other = shown(dialect, BlobKind::Data);
        let wraps = matches!(dialect, "a2a_v0_3" | "a2a_v0_3_rest" | "a2a_v0");
        assert_eq!(other.contains(r#""value":«content»"#), wraps, "{dialect}: {other}");
    }
}
