//! Tests of `decide`.

use super::*;

fn name(decided: Result<Decided, WireFault>) -> &'static str {
    match decided.unwrap() {
        Decided::Wire(wire) => wire.name(),
        Decided::Opener => "opener",
    }
}

#[test]
fn without_a_version_the_name_of_the_method_decides() {
    for method in a2a_v1::METHODS {
        assert_eq!(name(decide(method, None)), "a2a_v1", "{method}");
    }
    for method in
        ["message/send", "message/stream", "tasks/pushNotificationConfig/set", "agent/getAuthenticatedExtendedCard"]
    {
        assert_eq!(name(decide(method, None)), "a2a_v0_3", "{method}");
    }
    for method in ["tasks/send", "tasks/sendSubscribe", "tasks/pushNotification/set", "tasks/pushNotification/get"] {
        assert_eq!(name(decide(method, None)), "a2a_v0_1", "{method}");
    }
    for method in ["tasks/get", "tasks/cancel", "tasks/resubscribe"] {
        assert_eq!(name(decide(method, None)), "opener", "{method}");
    }
    // The dialect that an unknown method looks like refuses it.
    assert_eq!(name(decide("tasks/list", None)), "a2a_v0_3");
    assert_eq!(name(decide("Nonsense", None)), "a2a_v1");
}

#[test]
fn the_opener_decides_what_a_name_cannot() {
    for (opened_by, wire) in [
        (Some("a2a_v0_3"), "a2a_v0_3"),
        (Some("a2a_v0_3_rest"), "a2a_v0_3"),
        (Some("a2a_v0_1"), "a2a_v0_1"),
        (Some("a2a_v1"), "a2a_v0"),
        (Some("some-product"), "a2a_v0"),
        (None, "a2a_v0"),
    ] {
        assert_eq!(decide("tasks/get", None).unwrap().resolve(opened_by).name(), wire, "{opened_by:?}");
    }
    assert_eq!(decide("GetTask", None).unwrap().resolve(Some("a2a_v0_1")).name(), "a2a_v1");
}

#[test]
fn a_stated_version_decides() {
    for version in [(0, 2), (0, 3)] {
        for method in ["message/send", "tasks/get", "tasks/send"] {
            assert_eq!(name(decide(method, Some(version))), "a2a_v0_3", "{method}");
        }
        let refusal = decide("SendMessage", Some(version)).unwrap_err();
        assert_eq!((refusal.wire.name(), refusal.fault.kind), ("a2a_v1", Kind::VersionNotSupported));
        assert_eq!(refusal.fault.facts, [("supportedVersions", "1.0, 0.3".to_owned())]);
    }
    for method in ["SendMessage", "message/send", "tasks/get", "tasks/send"] {
        assert_eq!(name(decide(method, Some((1, 0)))), "a2a_v1", "{method}");
    }
}

#[test]
fn a_method_of_another_generation_is_not_found_in_the_stated_one() {
    let limits = model::Limits::default();
    for (method, version) in [("tasks/send", (0, 3)), ("message/send", (1, 0)), ("tasks/get", (1, 0))] {
        let wire = decide(method, Some(version)).unwrap().resolve(None);
        let fault = wire.decode_rpc(method, None, &limits).unwrap_err();
        assert_eq!(fault.kind, Kind::MethodNotFound, "{method}");
        assert_eq!(wire.error_line(fault.kind, crate::wire::Operation::Unknown).rpc, -32601);
    }
}

#[test]
fn routes_below_v1_are_0_3_unless_the_caller_speaks_1_0() {
    let name = |path, version| decide_route(path, version).unwrap().name();
    assert_eq!(name("/v1/message:send", None), "a2a_v0_3_rest");
    assert_eq!(name("/v1/message:send", Some((0, 3))), "a2a_v0_3_rest");
    assert_eq!(name("/agent/authenticatedExtendedCard", None), "a2a_v0_3_rest");
    assert_eq!(name("/v1/message:send", Some((1, 0))), "a2a_v1");
    assert_eq!(name("/message:send", None), "a2a_v1");
    let refusal = decide_route("/message:send", Some((0, 3))).unwrap_err();
    assert_eq!((refusal.wire.name(), refusal.fault.kind), ("a2a_v1", Kind::VersionNotSupported));
}

#[test]
fn stated_versions_are_those_served() {
    for (text, version) in
        [("1.0", (1, 0)), ("1", (1, 0)), ("1.0.1", (1, 0)), ("0.3", (0, 3)), ("0.3.0", (0, 3)), (" 0.2.6 ", (0, 2))]
    {
        assert_eq!(stated(Some(text), None).unwrap(), Some(version), "{text}");
        assert_eq!(stated(None, Some(text)).unwrap(), Some(version), "{text}");
        assert_eq!(stated(Some(text), Some(text)).unwrap(), Some(version), "{text}");
    }
    for text in [None, Some(""), Some("  ")] {
        assert_eq!(stated(text, None).unwrap(), None);
    }
    for text in ["99.0", "1.7", "0.1", "0.4", "0", "2", "1.0,0.3", "v1", "1."] {
        let fault = stated(Some(text), None).unwrap_err();
        assert_eq!(fault.kind, Kind::VersionNotSupported, "{text}");
        assert_eq!(fault.facts, [("supportedVersions", "1.0, 0.3".to_owned())]);
    }
    assert!(stated(Some("1.0"), Some("0.3")).is_err());
}
