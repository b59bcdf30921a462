//! Schemathesis tests every operation of the generated OpenAPI document: no server error, no answer that is not in
//! the document.

use std::process::Command;

use e2e::{http::Request, setup};
use serde_json::Value;

use crate::people::{FREE_HAND, open, start, verify};

/// The checks of every answer.
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,\
                      response_headers_conformance,response_schema_conformance,unsupported_method,\
                      allow_header_conformance,ignored_auth";

#[test]
fn nothing_breaks_it_and_every_answer_is_documented() {
    let server = start("true");
    let buyer = open(&server, "1000000", FREE_HAND);
    let document = server.exchange(&Request::new("GET", "/api/v1/public/openapi.json")).json();
    assert_eq!(document["openapi"].as_str().map(|version| &version[..3]), Some("3.1"), "{document}");
    let program = setup::ensure("schemathesis/.venv/.stamp").with_file_name("bin/schemathesis");
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(program);
    command
        .current_dir(folder.path())
        .args(["run", &format!("{}/api/v1/public/openapi.json", server.url())])
        .args(["--url", &format!("{}/api/v1", server.url())])
        .args(["--checks", CHECKS, "--phases", "examples,coverage,fuzzing", "--max-examples", "15"])
        // A stream does not end; other tests read it.
        .args(["--exclude-path", "/agent-runtime/connect"])
        // One worker: with two of them, Python 3.11 itself sometimes fails (a parser that counts its depth for all
        // threads).
        .args([
            "--seed",
            "7",
            "--workers",
            "1",
            "--request-timeout",
            "20",
            "--suppress-health-check",
            "all",
            "--warnings",
            "off",
        ])
        .args(["-H", &format!("X-Api-Key: {}", buyer.key), "-H", &format!("X-Platform-User-Id: {}", buyer.id)]);
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(verify(&server)["differences"], Value::Array(Vec::new()));
}
