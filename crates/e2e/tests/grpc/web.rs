//! gRPC-Web: the same calls over HTTP/1.1, with the trailers in the body, and from a page in a browser.

use std::net::TcpListener;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use e2e::grpc::{self, V1, V03, code, proto};
use e2e::http::{Request, Response};
use e2e::{Server, setup};

/// The flag of a frame of trailers.
const TRAILERS: u8 = 0x80;

fn hello(service: &str) -> Vec<u8> {
    let part = proto::field(1, "hello");
    if service == V1 { proto::send_v1(&part) } else { proto::send_v03(&part) }
}

fn request(path: &str, text: bool, body: &[u8]) -> Request {
    let version = if path.contains(V1) { "1.0" } else { "0.3" };
    let request = Request::new("POST", path).header("x-grpc-web", "1").header("a2a-version", version);
    if text {
        request.header("content-type", "application/grpc-web-text").body(BASE64.encode(body))
    } else {
        request.header("content-type", "application/grpc-web+proto").body(body)
    }
}

/// The messages of an answer, its status and the other trailers.
fn read(response: &Response, text: bool) -> (Vec<Vec<u8>>, u32, Vec<(String, String)>) {
    assert_eq!(response.status(), 200, "{}", response.text());
    let form = if text { "application/grpc-web-text" } else { "application/grpc-web" };
    assert!(response.head.media_type().starts_with(form), "{:?}", response.head);
    let body = if text { untexted(&response.body) } else { response.body.clone() };
    let mut frames = grpc::frames(&body);
    let (flag, trailers) = frames.pop().unwrap_or_else(|| panic!("no trailers: {response:?}"));
    assert_eq!(flag, TRAILERS, "the trailers are the last frame: {response:?}");
    assert!(frames.iter().all(|(flag, _)| *flag == 0), "{response:?}");
    let trailers = String::from_utf8(trailers).unwrap();
    let trailers: Vec<(String, String)> = trailers
        .split("\r\n")
        .filter(|line| !line.is_empty())
        .map(|line| line.split_once(':').unwrap_or_else(|| panic!("not a trailer: {line:?}")))
        .map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
        .collect();
    assert!(trailers.iter().all(|(name, _)| *name == name.to_lowercase()), "names are in lower case: {trailers:?}");
    let status = trailers.iter().find(|(name, _)| name == "grpc-status").expect("a status").1.parse().unwrap();
    (frames.into_iter().map(|(_, message)| message).collect(), status, trailers)
}

/// Base64 of pieces one after another, each with its own padding.
fn untexted(body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for quad in body.chunks(4) {
        bytes.extend(BASE64.decode(quad).unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(body))));
    }
    bytes
}

#[test]
fn calls_in_both_forms_are_answered_over_http_1() {
    let server = Server::start(&[]);
    for text in [false, true] {
        for service in [V1, V03] {
            let sent = request(&format!("{service}/SendMessage"), text, &grpc::frame(&hello(service)));
            let (messages, status, _) = read(&server.exchange(&sent), text);
            assert_eq!((messages.len(), status), (1, code::OK), "{service} {text}");
            assert_eq!(proto::values(&messages[0], 1).len(), 1, "a task");

            let sent = request(&format!("{service}/SendStreamingMessage"), text, &grpc::frame(&hello(service)));
            let response = server.exchange(&sent);
            let (messages, status, trailers) = read(&response, text);
            assert_eq!(status, code::OK, "{service} {text}");
            assert!(messages.len() > 1, "a stream of messages: {service} {text}");
            assert!(response.head.header("a2a-event-id").is_some(), "{response:?}");
            assert!(trailers.iter().any(|(name, _)| name == "last-event-id"), "{trailers:?}");
        }
    }
}

#[test]
fn errors_are_told_in_the_trailers_or_in_the_headers() {
    let server = Server::start(&[]);
    for text in [false, true] {
        for (path, body, expected) in [
            (format!("{V1}/GetTask"), grpc::frame(&proto::field(2, "nobody")), &[code::NOT_FOUND][..]),
            (format!("{V1}/Sing"), grpc::frame(&[]), &[code::UNIMPLEMENTED]),
            (format!("{V1}/SendMessage"), grpc::frame(&[0xff; 9]), &[code::INVALID_ARGUMENT, code::INTERNAL]),
            (
                format!("{V1}/SendMessage"),
                grpc::frame(&hello(V1))[..7].to_vec(),
                &[code::INVALID_ARGUMENT, code::INTERNAL],
            ),
        ] {
            let response = server.exchange(&request(&path, text, &body));
            // An answer without a message may say its status in the headers.
            let status = match response.head.header("grpc-status") {
                Some(status) => status.parse().unwrap(),
                None => read(&response, text).1,
            };
            assert_eq!(response.status(), 200, "{path}: {}", response.text());
            assert!(expected.contains(&status), "{path} {text}: {status}");
        }
    }
    let garbled = request(&format!("{V1}/SendMessage"), true, b"").body("!!! this is no base64 !!!");
    let response = server.exchange(&garbled);
    let told = response.head.header("grpc-status").map(|status| status.parse().unwrap());
    let status: u32 = told.unwrap_or_else(|| read(&response, true).1);
    assert!(matches!(status, code::INVALID_ARGUMENT | code::INTERNAL), "{status}");
    assert_eq!(server.get("/healthz").status(), 200);
    assert!(!server.log().contains("panicked"), "{}", server.log());
}

/// The page calls the server that it comes from, and from another origin the one that allows it.
#[test]
fn a_page_in_chromium_calls_over_grpc_web() {
    let site = TcpListener::bind("127.0.0.1:0").unwrap();
    let origin = format!("http://{}", site.local_addr().unwrap());
    drop(site);
    let config = format!(
        "cors: {{ origins: ['{origin}'] }}\nagents: {{ echo: {{ kind: echo }}, scripted: {{ kind: scripted }} }}\n"
    );
    let server = Server::options().config(&config).start();
    let python = setup::ensure("chromium/.venv/.stamp").with_file_name("bin/python");
    let mut program = std::process::Command::new(python);
    program.arg(setup::clients().join("chromium/grpc_web.py")).args([&*server.url(), &*origin]);
    setup::run_scenarios(program.env("PYTHONDONTWRITEBYTECODE", "1"));
}
