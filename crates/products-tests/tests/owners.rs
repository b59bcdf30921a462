//! The owner of a request at an address that products share with agents, by its params.

use gateway::product::{SharedAddress, SharedOwner};
use market::MarketAddress;
use systems::SystemsAddress;

const MARKET: &[&dyn SharedAddress] = &[&MarketAddress];
const SYSTEMS: &[&dyn SharedAddress] = &[&SystemsAddress];
const BOTH: &[&dyn SharedAddress] = &[&MarketAddress, &SystemsAddress];

fn owner(products: &[&dyn SharedAddress], method: &str, params: Option<&str>) -> String {
    match SharedOwner::by_params(products.iter().copied(), method, params) {
        SharedOwner::Product(product) => product.dialect().to_owned(),
        SharedOwner::ProductIfUnknown(product) => format!("{} if unknown", product.dialect()),
        SharedOwner::FirstGeneration => "0.1".to_owned(),
        SharedOwner::Agent => "agent".to_owned(),
    }
}

#[test]
fn params_tell_the_owner_of_a_request_where_no_header_does() {
    for (products, method, params, expected) in [
        (BOTH, "tasks/send", r#"{"id":"t","message":{}}"#, "orloj"),
        (BOTH, "tasks/sendSubscribe", r#"{"id":"task_1","message":{"role":"user"}}"#, "orloj"),
        (BOTH, "tasks/send", r#"{"id":"t","sessionId":"s","message":{}}"#, "0.1"),
        (BOTH, "tasks/send", r#"{"capability_id":"cap_1","message":{}}"#, "uumit"),
        (BOTH, "tasks/get", r#"{"id":"task_1"}"#, "uumit"),
        (BOTH, "tasks/get", r#"{"id":"t"}"#, "orloj if unknown"),
        (BOTH, "tasks/cancel", r#"{"id":"t"}"#, "orloj if unknown"),
        (BOTH, "tasks/send", r#"{"id":"t"}"#, "agent"),
        (BOTH, "tasks/resubscribe", r#"{"id":"t"}"#, "agent"),
        (BOTH, "message/send", r#"{"message":{}}"#, "agent"),
        (SYSTEMS, "tasks/get", r#"{"id":"task_1"}"#, "orloj if unknown"),
        (SYSTEMS, "tasks/send", r#"{"capability_id":"c"}"#, "agent"),
        (MARKET, "tasks/send", r#"{"capability_id":"cap_1"}"#, "uumit"),
        (MARKET, "tasks/send", r#"{"sessionId":"s","message":{},"capability_id":null}"#, "uumit"),
        (MARKET, "tasks/send", r#"{"id":"t","sessionId":"s","message":{}}"#, "0.1"),
        (MARKET, "tasks/get", r#"{"id":"task_1","sessionId":"s"}"#, "0.1"),
        (MARKET, "tasks/get", r#"{"id":"task_1"}"#, "uumit"),
        (MARKET, "tasks/cancel", r#"{ "x": [{"message":1}], "id" : "tx_1" }"#, "uumit"),
        (MARKET, "tasks/sendSubscribe", r#"{"id":"task_1"}"#, "uumit"),
        (MARKET, "tasks/sendSubscribe", r#"{"id":"task_1","message":{"role":"user"}}"#, "agent"),
        (MARKET, "tasks/send", r#"{"message":{"capability_id":"cap_1","sessionId":"s"}}"#, "agent"),
        (MARKET, "tasks/get", r#"{"id":"0197c3a0-0000-7000-8000-000000000000"}"#, "agent"),
        (MARKET, "tasks/get", "{}", "agent"),
        (MARKET, "GetTask", r#"{"id":"task_1"}"#, "agent"),
        (MARKET, "message/send", r#"{"capability_id":"cap_1"}"#, "agent"),
        (MARKET, "tasks/resubscribe", r#"{"id":"task_1"}"#, "agent"),
        (&[], "tasks/send", r#"{"capability_id":"cap_1"}"#, "agent"),
    ] {
        assert_eq!(owner(products, method, Some(params)), expected, "{method} {params}");
    }
    assert_eq!(owner(MARKET, "tasks/send", None), "agent");
}
