//! Tests of `task`.

use std::sync::Arc;

use proptest::prelude::*;
use uuid::Uuid;

use super::*;
use crate::{Inbound, Part, Role, StatusChange};

fn opened(undecided: bool) -> Event {
    let body = Body::Opened(Box::new(Opened {
        id: TaskId(Uuid::from_u128(1)),
        context: "c".into(),
        agent: "echo".into(),
        tenant: "t".into(),
        owner: "o".into(),
        parties: vec![],
        views: vec![View::tenant("t", "echo")],
        dialect: "a2a_v1".into(),
        alias: None,
        follows: None,
        undecided,
    }));
    Event { seq: Seq(1), at: Time(1), body }
}

fn message(role: Role, text: &str) -> Arc<Message> {
    Arc::new(Message {
        id: text.into(),
        role,
        parts: vec![Part::text(text)],
        metadata: None,
        extensions: vec![],
        references: vec![],
    })
}
fn said(text: &str) -> Body {
    Body::Message(Arc::new(Inbound {
        message: message(Role::User, text),
        metadata: None,
        accepted_output: vec![],
        extensions: vec![],
        trace: None,
        payer: None,
    }))
}
fn turn(n: u128) -> Body {
    Body::TurnStarted { turn: TurnId(Uuid::from_u128(n)), attempt: 1, hold: None }
}
fn status(state: State, text: Option<&str>) -> Body {
    Body::Status(StatusChange { state, message: text.map(|t| message(Role::Agent, t)), metadata: None })
}
fn chunk(id: &str, ordinal: u32, text: &str, append: bool) -> Body {
    Body::Artifact(Chunk {
        artifact: Arc::new(Artifact {
            id: id.into(),
            name: None,
            description: None,
            parts: vec![Part::text(text)],
            metadata: None,
            extensions: vec![],
        }),
        ordinal,
        append,
        bordered: false,
        last: false,
        metadata: None,
    })
}

/// A chunk of several parts, added to the artifact `a`.
fn added(parts: Vec<Part>, bordered: bool) -> Body {
    let Body::Artifact(mut chunk) = chunk("a", 0, "", true) else { unreachable!("a chunk is a chunk") };
    Arc::make_mut(&mut chunk.artifact).parts = parts;
    chunk.bordered = bordered;
    Body::Artifact(chunk)
}

#[test]
fn added_text_continues_the_text_before_it_and_nothing_else_does() {
    let text = |text: &str| Part::text(text);
    let typed = |text: &str, media: &str| Part { media_type: Some(media.into()), ..Part::text(text) };
    let marked = |text: &str| Part { metadata: Json::parse("{}"), ..Part::text(text) };
    let named = |text: &str| Part { filename: Some("f".into()), ..Part::text(text) };
    let data = || Part::data(Json::parse("1").unwrap());
    let cases: Vec<(&str, Vec<Body>, Vec<Part>)> = vec![
        ("chunks", vec![added(vec![text("b")], false), added(vec![text("c")], false)], vec![text("abc")]),
        ("an empty chunk", vec![added(vec![], false), added(vec![text("")], false)], vec![text("a")]),
        ("a border", vec![added(vec![text("b")], true), added(vec![text("c")], false)], vec![text("a"), text("bc")]),
        ("parts of one chunk", vec![added(vec![text("b"), text("c")], false)], vec![text("ab"), text("c")]),
        (
            "data between",
            vec![added(vec![data()], false), added(vec![text("b")], false), added(vec![text("c")], false)],
            vec![text("a"), data(), text("bc")],
        ),
        ("another media type", vec![added(vec![typed("b", "x/y")], false)], vec![text("a"), typed("b", "x/y")]),
        (
            "the same media type",
            vec![added(vec![typed("b", "x/y")], false), added(vec![typed("c", "x/y")], false)],
            vec![text("a"), typed("bc", "x/y")],
        ),
        ("metadata", vec![added(vec![marked("b")], false)], vec![text("a"), marked("b")]),
        (
            "after metadata",
            vec![added(vec![marked("b")], true), added(vec![text("c")], false)],
            vec![text("a"), marked("b"), text("c")],
        ),
        ("a file name", vec![added(vec![named("b")], false)], vec![text("a"), named("b")]),
    ];
    for (name, bodies, expected) in cases {
        let all = std::iter::once(chunk("a", 0, "a", false)).chain(bodies).collect();
        assert_eq!(fold(false, all).unwrap().artifacts[0].parts, expected, "{name}");
    }
}

/// With a copy of the text for each chunk this test would move terabytes.
#[test]
fn the_cost_of_a_chunk_does_not_grow_with_the_text_before_it() {
    let mut task = Task::open(&opened(false)).unwrap();
    for i in 0..1_000_000_u64 {
        let body = chunk("a", 0, "token ", i > 0);
        task.apply(&Event { seq: task.seq().next(), at: Time(1), body }).unwrap();
    }
    let [part] = &task.artifacts[0].parts[..] else { panic!("{} parts", task.artifacts[0].parts.len()) };
    assert_eq!(part.as_text().unwrap().len(), 6_000_000);
}

fn fold(undecided: bool, bodies: Vec<Body>) -> Result<Task, TransitionError> {
    let mut task = Task::open(&opened(undecided))?;
    for body in bodies {
        let event = Event { seq: task.seq().next(), at: Time(task.seq().0 as i64 + 1), body };
        task.apply(&event)?;
    }
    Ok(task)
}
fn texts(task: &Task) -> Vec<String> {
    task.history.iter().map(|m| m.text()).collect()
}

#[test]
fn a_question_stands_before_its_answer_in_the_history() {
    let task = fold(
        false,
        vec![
            said("hi"),
            turn(1),
            status(State::Working, Some("on it")),
            status(State::InputRequired, Some("which?")),
            said("this"),
            status(State::Working, None),
        ],
    )
    .unwrap();
    assert_eq!(texts(&task), ["hi", "on it", "which?", "this"]);
    assert_eq!(task.status.message, None);
}

#[test]
fn another_turn_has_another_name_and_remembers_the_last() {
    let bound = |remote: &str| Body::Bound { remote: remote.into() };
    let asks = || status(State::InputRequired, None);
    let names = |task: &Task| (task.bound.clone(), task.bound_before.clone());
    let mut bodies = vec![said("hi"), turn(1), bound("a"), asks(), said("this")];
    assert_eq!(names(&fold(false, bodies.clone()).unwrap()), (Some("a".into()), None));
    bodies.push(turn(2));
    assert_eq!(names(&fold(false, bodies.clone()).unwrap()), (None, Some("a".into())));
    // A turn without a bound name keeps the name of the turn before.
    bodies.extend([asks(), said("that"), turn(3)]);
    assert_eq!(names(&fold(false, bodies.clone()).unwrap()), (None, Some("a".into())));
    bodies.push(bound("b"));
    assert_eq!(names(&fold(false, bodies).unwrap()), (Some("b".into()), Some("a".into())));
}

#[test]
fn a_settled_task_refuses_everything() {
    for end in State::ALL.into_iter().filter(|s| s.is_terminal()) {
        for next in [
            said("more"),
            turn(2),
            status(State::Working, None),
            chunk("a", 0, "x", false),
            Body::CancelRequested { metadata: None },
        ] {
            let got = fold(false, vec![said("hi"), turn(1), status(end, None), next]);
            assert_eq!(got.unwrap_err(), TransitionError::Settled);
        }
    }
}

#[test]
fn chunks_append_or_replace() {
    let task = fold(
        false,
        vec![
            chunk("a", 0, "1", false),
            chunk("a", 0, "2", true),
            chunk("b", 1, "x", false),
            chunk("a", 0, "3", true),
            chunk("b", 1, "y", false),
        ],
    )
    .unwrap();
    let texts: Vec<Vec<&str>> =
        task.artifacts.iter().map(|a| a.parts.iter().filter_map(Part::as_text).collect()).collect();
    assert_eq!(texts, vec![vec!["123"], vec!["y"]]);
    assert_eq!(fold(false, vec![chunk("a", 0, "1", true)]).unwrap_err(), TransitionError::AppendToNothing);
}

#[test]
fn an_undecided_exchange_becomes_a_reply_or_a_task_but_never_both() {
    let reply = || Body::Replied(message(Role::Agent, "yo"));
    assert_eq!(fold(true, vec![said("hi"), turn(1), reply()]).unwrap().core.shape, Shape::Reply);
    assert_eq!(fold(true, vec![said("hi"), turn(1), status(State::Working, None)]).unwrap().core.shape, Shape::Task);
    assert_eq!(
        fold(true, vec![said("hi"), status(State::Working, None), reply()]).unwrap_err(),
        TransitionError::AlreadyShown
    );
    assert_eq!(fold(true, vec![said("hi"), turn(1), reply(), said("more")]).unwrap_err(), TransitionError::Settled);
}

#[test]
fn a_message_during_a_turn_waits_for_the_next() {
    let task = fold(false, vec![said("a"), turn(1), said("b")]).unwrap();
    assert_eq!(task.core.waiting, 1);
    let task = fold(false, vec![said("a"), turn(1), said("b"), status(State::Working, None), turn(2)]).unwrap();
    assert_eq!((task.core.waiting, task.core.turns), (0, 2));
    assert_eq!(fold(false, vec![said("a"), turn(1), turn(2)]).unwrap_err(), TransitionError::TurnOpen);
}

fn any_body() -> impl Strategy<Value = Body> {
    prop_oneof![
        "[a-c]{1,3}".prop_map(|t| said(&t)),
        (1_u128..4).prop_map(turn),
        (0_usize..8, proptest::option::of("[a-z]{1,4}")).prop_map(|(s, t)| status(State::ALL[s], t.as_deref())),
        (0_u32..3, "[x-z]{0,3}", any::<bool>()).prop_map(|(n, t, append)| chunk(&format!("a{n}"), n, &t, append)),
        Just(Body::CancelRequested { metadata: None }),
        Just(Body::Bound { remote: "r".into() }),
        Just(Body::Replied(message(Role::Agent, "yo"))),
    ]
}

proptest! {
    /// For any sequence of events: accepted events are numbered without gaps, the first terminal state stays, the
    /// stepped `Core` agrees with the fold, and no message is lost.
    #[test]
    fn any_sequence_keeps_the_invariants(undecided: bool, bodies in prop::collection::vec(any_body(), 0..40)) {
        let mut task = Task::open(&opened(undecided)).unwrap();
        let mut settled: Option<Task> = None;
        let mut spoken = 0;
        for body in bodies {
            let event = Event { seq: task.seq().next(), at: Time(5), body };
            let mut core = task.core;
            let allowed = core.step(&event.body, event.at);
            let before = task.clone();
            match task.apply(&event) {
                Ok(()) => {
                    prop_assert!(allowed.is_ok());
                    prop_assert_eq!(core, task.core);
                    prop_assert_eq!(task.seq(), before.seq().next());
                    prop_assert_eq!(task.status.state, task.core.state);
                    spoken += usize::from(matches!(event.body, Body::Message(_)));
                }
                Err(refused) => {
                    prop_assert!(allowed == Err(refused) || refused == TransitionError::AppendToNothing);
                    prop_assert_eq!(&before, &task);
                }
            }
            if let Some(end) = &settled { prop_assert_eq!(end, &task); }
            if task.core.is_settled() { settled.get_or_insert_with(|| task.clone()); }
        }
        prop_assert_eq!(task.history.iter().filter(|m| m.role == Role::User).count(), spoken);
    }
}

#[test]
fn what_is_set_aside_lives_as_long_as_its_turn() {
    let id = TurnId(Uuid::from_u128(1));
    let hold = Json::parse(r#"{"amount":5}"#);
    let asks = |payer: &str| {
        let Body::Message(inbound) = said("x") else { unreachable!() };
        Body::Message(Arc::new(Inbound { payer: Some(payer.into()), ..(*inbound).clone() }))
    };
    let facts = |text: &str| Body::Metadata(Json::parse(text).unwrap());
    let mut task = Task::open(&opened(false)).unwrap();
    let mut seq = 1;
    let mut apply = |task: &mut Task, body: Body| {
        seq += 1;
        task.apply(&Event { seq: Seq(seq), at: Time(1), body }).unwrap();
    };
    apply(&mut task, asks("ann"));
    assert_eq!(task.due.as_ref().unwrap().payer.as_deref(), Some("ann"));
    apply(&mut task, Body::TurnStarted { turn: id, attempt: 1, hold: hold.clone() });
    assert_eq!(task.due.as_deref(), Some(&TaskBilling { hold: hold.clone(), ..TaskBilling::default() }));
    apply(&mut task, facts(r#"{"usage":1}"#));
    // Another attempt is the same turn; the sender of a message received meanwhile pays for the next turn.
    apply(&mut task, Body::TurnStarted { turn: id, attempt: 2, hold: None });
    apply(&mut task, asks("bob"));
    apply(&mut task, facts(r#"{"usage":2,"more":3}"#));
    let due = task.due.as_deref().unwrap();
    assert_eq!((&due.hold, due.payer.as_deref()), (&hold, Some("bob")));
    assert_eq!(due.facts, Json::parse(r#"{"usage":2,"more":3}"#));
    apply(&mut task, status(State::InputRequired, None));
    let due = task.due.as_deref().unwrap();
    assert_eq!((&due.hold, &due.facts, due.payer.as_deref()), (&None, &None, Some("bob")));
    apply(&mut task, turn(2));
    assert_eq!(task.due.as_deref(), Some(&TaskBilling::default()), "a turn for nothing");
}
