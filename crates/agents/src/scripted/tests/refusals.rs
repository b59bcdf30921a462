//! Tests of scripts that are refused.

use model::Kind;
use model::ports::agent::Agent as _;
use proptest::prelude::*;

use super::*;

/// The error, and its path below the script.
fn refused(data: &str) -> (String, String) {
    let agent = agent(ScriptedMode::Play);
    let parts = vec![Part::text("do this"), Part::data(json(data))];
    let fault = agent.admit(&inbound("m", parts), None).expect_err(data);
    assert_eq!(fault.kind, Kind::InvalidParams);
    let field = fault.field.unwrap();
    let place = field.strip_prefix("message.parts[1].data.script").unwrap_or_else(|| panic!("{field}"));
    (place.to_owned(), fault.message)
}

fn check(step: &str, place: &str, message: &str) {
    let (at, says) = refused(&format!(r#"{{"script":[{{"status":"working"}},{step}]}}"#));
    assert_eq!((at.as_str(), says.as_str()), (format!("[1]{place}").as_str(), message), "{step}");
}

#[test]
fn a_script_with_a_mistake_is_refused_with_its_place_and_a_hint() {
    check(r#"{"slep_ms":5}"#, "", r#"unknown step "slep_ms"; did you mean "sleep_ms"?"#);
    check(r#"{"Complete":"x"}"#, "", r#"unknown step "Complete"; did you mean "complete"?"#);
    check(
        r#"{"input":"a","fail":"b"}"#,
        "",
        r#"a step does one thing, and this one has both "input" and "fail"; make it two steps"#,
    );
    check(r#"{"fail":"a","fail":"b"}"#, "", r#""fail" stands here twice"#);
    check(r#"{"text":"a"}"#, ".text", r#""text" belongs to a step "status""#);
    check(r#"{"complete":"a","chunks":3}"#, ".chunks", r#""chunks" belongs to a step "artifact""#);
    check(
        r#"{"artifact":{"parts":[{"text":"a"}]},"chunk":3}"#,
        "",
        r#"unknown member "chunk"; did you mean "chunks"?"#,
    );
    let steps =
        "status, sleep_ms, artifact, echo, message, input, auth, complete, fail, reject, hang, metadata, restart";
    check("{}", "", &format!("a step is an object with one of {steps}"));
    check("7", "", "7 must be an object");
    check("\"hang\"", "", "\"hang\" must be an object");
}

#[test]
fn a_status_other_than_working_is_refused_with_the_step_that_does_it() {
    let only = r#""status" can only be "working"; "#;
    check(r#"{"status":"completed"}"#, ".status", &format!(r#"{only}use the step "complete""#));
    check(r#"{"status":"TASK_STATE_FAILED"}"#, ".status", &format!(r#"{only}use the step "fail""#));
    check(r#"{"status":"input_required"}"#, ".status", &format!(r#"{only}use the step "input""#));
    check(r#"{"status":"canceled"}"#, ".status", &format!(r#"{only}use the step "hang" and cancel the task"#));
    check(r#"{"status":"odd"}"#, ".status", &format!("{only}the other states have steps of their own"));
    check(r#"{"status":3}"#, ".status", "3 must be a string");
}

#[test]
fn wrong_types_and_numbers_out_of_bounds_are_refused() {
    let words = r#"what is said must be a string, null, or {"parts":[...]}"#;
    check(r#"{"status":"working","text":5}"#, ".text", words);
    check(r#"{"complete":true}"#, ".complete", words);
    check(r#"{"fail":{"text":"x"}}"#, ".fail", r#""parts" must hold at least one part"#);
    check(r#"{"message":null}"#, ".message", "a direct message must say something");
    check(r#"{"message":""}"#, ".message", "a direct message must say something");
    check(r#"{"hang":false}"#, ".hang", r#""hang" is true or left out"#);
    check(r#"{"hang":1}"#, ".hang", "1 must be true or false");
    check(r#"{"metadata":[]}"#, ".metadata", "metadata must be an object");
    check(r#"{"restart":"retry"}"#, ".restart", r#""restart" can only be the first step"#);
    let (at, says) = refused(r#"{"script":[{"restart":"always"}]}"#);
    assert_eq!((at.as_str(), says.as_str()), ("[0].restart", r#""restart" is "retry" or "fail""#));
    let day = "must be a whole number from 0 to 86400000";
    for bad in ["-1", "0.5", "86400001", "1e300", "\"5\"", "null"] {
        check(&format!(r#"{{"sleep_ms":{bad}}}"#), ".sleep_ms", &format!("{bad} {day}"));
    }
    let artifact = r#""artifact":{"parts":[{"text":"a"}]}"#;
    let many = "must be a whole number from 1 to 1000000";
    check(&format!(r#"{{{artifact},"chunks":0}}"#), ".chunks", &format!("0 {many}"));
    check(&format!(r#"{{{artifact},"chunks":1000001}}"#), ".chunks", &format!("1000001 {many}"));
    check(&format!(r#"{{{artifact},"every_ms":86400001}}"#), ".every_ms", &format!("86400001 {day}"));
}

#[test]
fn parts_must_be_parts() {
    let refused_with = check;
    let check = |part: &str, place: &str, message: &str| {
        check(
            &format!(r#"{{"artifact":{{"parts":[{{"text":"a"}},{part}]}}}}"#),
            &format!(".artifact.parts[1]{place}"),
            message,
        );
    };
    let one = r#"a part has one of "text", "raw", "url" and "data""#;
    check("{}", "", one);
    check(r#"{"text":"a","data":1}"#, "", one);
    check(r#"{"text":1}"#, ".text", "1 must be a string");
    check(r#"{"raw":"*"}"#, ".raw", "raw bytes must be base64");
    check(r#"{"text":"a","mimeType":"x/y"}"#, "", r#"unknown member "mimeType"; did you mean "mediaType"?"#);
    check(r#"{"text":"a","mediaType":"x","media_type":"y"}"#, "", r#""mediaType" and "media_type" are one member"#);
    check(r#"{"text":"a","metadata":1}"#, ".metadata", "metadata must be an object");
    refused_with(r#"{"artifact":{"parts":[]}}"#, ".artifact", r#""parts" must hold at least one part"#);
    refused_with(
        r#"{"artifact":{"nmae":"x","parts":[{"text":"a"}]}}"#,
        ".artifact",
        r#"unknown member "nmae"; did you mean "name"?"#,
    );
}

#[test]
fn an_append_needs_something_begun_in_the_same_turn() {
    let says = r#""append" adds to an artifact of the same artifactId that an earlier step began in this turn"#;
    let append = r#"{"artifact":{"artifactId":"x","parts":[{"text":"a"}]},"append":true}"#;
    check(append, ".append", says);
    let begin = r#"{"artifact":{"artifactId":"x","parts":[{"text":"a"}]}}"#;
    let (at, _) = refused(&format!(r#"{{"script":[{begin},{{"input":"?"}},{append}]}}"#));
    assert_eq!(at, "[2].append");
}

#[test]
fn a_script_is_one_array_of_at_most_ten_thousand_steps() {
    assert_eq!(refused(r#"{"script":5}"#), (String::new(), "5 must be an array".into()));
    assert_eq!(refused(r#"{"script":{"complete":"x"}}"#).1, r#"{"complete":"x"} must be an array"#);
    let steps = |n| format!(r#"{{"script":[{}]}}"#, vec![r#"{"sleep_ms":0}"#; n].join(","));
    let (at, says) = refused(&steps(10_001));
    assert_eq!((at.as_str(), says.as_str()), ("", "a script has at most 10000 steps, and this one has 10001"));
    let agent = agent(ScriptedMode::Play);
    assert!(agent.admit(&inbound("m", vec![Part::data(json(&steps(10_000)))]), None).is_ok());
    let twice = [script(""), script("")].concat();
    let fault = agent.admit(&inbound("m", twice), None).unwrap_err();
    assert_eq!(fault.field.as_deref(), Some("message.parts[1].data.script"));
    assert_eq!(fault.message, "a message carries one script, and parts[0] is one already");
}

#[test]
fn a_fault_repeats_only_so_much_of_what_was_sent() {
    let (_, says) = refused(&format!(r#"{{"script":[{{"{}":1}}]}}"#, "é".repeat(1_000_000)));
    assert!(says.len() < 200, "{says}");
}

#[test]
fn a_refused_script_leaves_no_task() {
    let mut stage = stage();
    assert!(stage.try_say("m", script(r#"{"slep_ms":5}"#)).is_err());
    stage.say("m", text("hello"));
    assert_eq!(stage.task().history.len(), 1);
}

fn any_json() -> impl Strategy<Value = String> {
    let name = prop::sample::select(
        [super::super::script::STEPS, &["text", "chunks", "every_ms", "append", "parts", "raw", "data", "x"]].concat(),
    );
    let leaf = prop_oneof![
        Just("null".to_owned()),
        Just("true".to_owned()),
        any::<i64>().prop_map(|n| n.to_string()),
        any::<f64>().prop_filter("finite", |n| n.is_finite()).prop_map(|n| n.to_string()),
        any::<String>().prop_map(|text| serde_json::Value::from(text).to_string()),
        Just("\"working\"".to_owned()),
        Just("\"retry\"".to_owned()),
    ];
    leaf.prop_recursive(5, 64, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(|all| format!("[{}]", all.join(","))),
            prop::collection::vec((name.clone(), inner), 0..4).prop_map(|all| {
                let members: Vec<String> = all.into_iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
                format!("{{{}}}", members.join(","))
            }),
        ]
    })
}

proptest! {
    #[test]
    fn any_json_is_admitted_or_refused(value in any_json()) {
        let agent = agent(ScriptedMode::Play);
        for data in [format!(r#"{{"script":{value}}}"#), format!(r#"{{"script":[{value}]}}"#), value] {
            match agent.admit(&inbound("m", vec![Part::data(json(&data))]), None) {
                Ok(_) => {}
                Err(fault) => {
                    prop_assert_eq!(fault.kind, Kind::InvalidParams);
                    prop_assert!(fault.field.unwrap().starts_with("message.parts[0].data.script"));
                }
            }
        }
    }

    #[test]
    fn any_text_is_admitted_or_refused(word in any::<String>(), name in "[a-z]{3,7}", arg in ".{0,12}") {
        let agent = agent(ScriptedMode::Play);
        for said in [word, format!("{name}:{arg}"), format!("chunks:{arg}"), format!("sleep:{arg}")] {
            if let Err(fault) = agent.admit(&inbound("m", text(&said)), None) {
                prop_assert_eq!(fault.kind, Kind::InvalidParams);
            }
        }
    }
}
