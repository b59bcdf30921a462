//! A body above the limit, sent by third-party clients that write all of it before they read: Python's `urllib` and
//! Node's `fetch`. They get the complete error.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::process::Command;

use e2e::{Server, setup};
use serde_json::Value;

const URLLIB: &str = r#"
import json, sys, urllib.error, urllib.request
url, size, chunked = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "chunks"
def pieces():
    for _ in range(size // 65536):
        yield b" " * 65536
body = pieces() if chunked else b" " * size
headers = {"Content-Type": "application/json", "A2A-Version": "1.0"}
request = urllib.request.Request(url, data=body, headers=headers, method="POST")
try:
    urllib.request.urlopen(request, timeout=60)
    print(json.dumps({"status": 200}))
except urllib.error.HTTPError as error:
    print(json.dumps({"status": error.code, "body": error.read().decode()}))
"#;

const FETCH: &str = r#"
const [url, size, framing] = [process.argv[1], Number(process.argv[2]), process.argv[3]];
function* pieces() { for (let i = 0; i < size / 65536; i++) yield Buffer.alloc(65536, " "); }
const body = framing === "chunks" ? ReadableStream.from(pieces()) : Buffer.alloc(size, " ");
const headers = { "Content-Type": "application/json", "A2A-Version": "1.0" };
const answer = await fetch(url, { method: "POST", headers, body, duplex: "half" });
console.log(JSON.stringify({ status: answer.status, body: await answer.text() }));
"#;

fn told(command: &mut Command) -> Value {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_str(&said).unwrap_or_else(|error| panic!("{error}: {said}"))
}

#[test]
fn clients_that_write_first_are_told_that_a_body_is_too_large() {
    let server = Server::start(&[]);
    let python = setup::ensure("python/.venv/.stamp").with_file_name("bin/python");
    // The limit is 10 MiB; the second is more than the server reads before it answers.
    for size in [24 << 20, 80 << 20] {
        for path in ["/a2a/echo", "/a2a/echo/message:send"] {
            for framing in ["length", "chunks"] {
                let url = format!("{}{path}", server.url());
                let words = [url.as_str(), &size.to_string(), framing].map(str::to_owned);
                let mut urllib = Command::new(&python);
                urllib.arg("-c").arg(URLLIB).args(&words);
                let mut fetch = Command::new("node");
                fetch.args(["--input-type=module", "-e", FETCH]).args(&words);
                for (name, command) in [("urllib", &mut urllib), ("fetch", &mut fetch)] {
                    let answer = told(command);
                    let row = format!("{name} {size} {path} {framing}");
                    assert_eq!(answer["status"], 413, "{row}: {answer}");
                    let body: Value = serde_json::from_str(answer["body"].as_str().unwrap()).unwrap();
                    let message = body["error"]["message"].as_str().unwrap();
                    assert!(message.contains("larger than 10485760 bytes"), "{row}: {body}");
                }
            }
        }
    }
}
