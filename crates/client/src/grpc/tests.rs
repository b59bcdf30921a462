//! Tests against a server whose every frame is scripted.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use dialects::protobuf::ProtoWriter;
use h2::server::SendResponse;
use h2::{Reason, server};
use model::{Kind, State};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use super::frames::framed;
use crate::seen::Seen;
use crate::{Client, Error, Events, FailureStage, Generation, Options, PeerCredentials, say};

/// One step of an answer.
#[derive(Clone, Debug)]
enum Step {
    Head(u16, Vec<(&'static str, String)>),
    Data(Bytes),
    Trailers(Vec<(&'static str, String)>),
    Reset(Reason),
    /// The connection says that it ends; streams of its own go on.
    GoAway,
    /// The connection ends at once.
    Abort,
    /// Waits until the client resets the stream, and takes note.
    UntilReset,
}

type Request = ::http::Request<Bytes>;
type Script = Arc<dyn Fn(&Request) -> Vec<Step> + Send + Sync>;

struct Server {
    address: std::net::SocketAddr,
    requests: Arc<Mutex<Vec<Request>>>,
    resets: Arc<Mutex<Vec<Reason>>>,
}

impl Server {
    async fn start(script: impl Fn(&Request) -> Vec<Step> + Send + Sync + 'static) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (requests, resets) = <(Arc<Mutex<Vec<Request>>>, Arc<Mutex<Vec<Reason>>>)>::default();
        let (script, told, reset): (Script, _, _) = (Arc::new(script), requests.clone(), resets.clone());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, script.clone(), told.clone(), reset.clone()));
            }
        });
        Server { address, requests, resets }
    }

    fn options(&self) -> Options {
        Options { generation: Some(Generation::V1_0), ..Options::new(format!("grpc://{}", self.address)) }
    }

    fn client(&self) -> Client {
        Client::new(self.options()).unwrap()
    }

    /// The requests to a method.
    fn asked(&self, method: &str) -> Vec<Request> {
        let requests = self.requests.lock().unwrap();
        let of = |one: &&Request| one.uri().path().ends_with(&format!("/{method}"));
        requests.iter().filter(of).cloned().collect()
    }
}

async fn serve(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    script: Script,
    told: Arc<Mutex<Vec<Request>>>,
    resets: Arc<Mutex<Vec<Reason>>>,
) {
    let Ok(mut connection) = server::handshake(stream).await else { return };
    let (ends, mut ended) = mpsc::unbounded_channel::<Step>();
    loop {
        tokio::select! {
            step = ended.recv() => match step {
                Some(Step::GoAway) => connection.graceful_shutdown(),
                _ => return,
            },
            accepted = connection.accept() => {
                let Some(Ok((request, respond))) = accepted else { return };
                let (script, told, ends, resets) = (script.clone(), told.clone(), ends.clone(), resets.clone());
                tokio::spawn(async move {
                    let (parts, mut body) = request.into_parts();
                    let mut all = Vec::new();
                    while let Some(Ok(piece)) = body.data().await {
                        all.extend_from_slice(&piece);
                    }
                    let request = ::http::Request::from_parts(parts, Bytes::from(all));
                    told.lock().unwrap().push(request.clone());
                    answer(respond, script(&request), &ends, &resets).await;
                });
            }
        }
    }
}

async fn answer(
    mut respond: SendResponse<Bytes>,
    steps: Vec<Step>,
    ends: &mpsc::UnboundedSender<Step>,
    resets: &Mutex<Vec<Reason>>,
) {
    let last = steps.len().saturating_sub(1);
    let mut sending = None;
    for (i, step) in steps.into_iter().enumerate() {
        match step {
            Step::Head(status, headers) => {
                let mut response = ::http::Response::builder().status(status);
                for (name, value) in headers {
                    response = response.header(name, value);
                }
                sending = respond.send_response(response.body(()).unwrap(), i == last).ok();
            }
            Step::Data(bytes) => sending.as_mut().unwrap().send_data(bytes, i == last).unwrap(),
            Step::Trailers(headers) => {
                let mut trailers = ::http::HeaderMap::new();
                for (name, value) in headers {
                    trailers.insert(name, value.parse().unwrap());
                }
                sending.as_mut().unwrap().send_trailers(trailers).unwrap();
            }
            Step::Reset(reason) => {
                // The frames before it go out first.
                tokio::time::sleep(Duration::from_millis(20)).await;
                sending.as_mut().unwrap().send_reset(reason);
            }
            Step::GoAway => ends.send(Step::GoAway).unwrap(),
            Step::Abort => {
                tokio::time::sleep(Duration::from_millis(20)).await;
                ends.send(Step::Abort).unwrap();
            }
            Step::UntilReset => {
                let reason = std::future::poll_fn(|cx| match &mut sending {
                    Some(sending) => sending.poll_reset(cx),
                    None => respond.poll_reset(cx),
                });
                if let Ok(reason) = reason.await {
                    resets.lock().unwrap().push(reason);
                }
            }
        }
    }
}

fn head(more: &[(&'static str, &str)]) -> Step {
    let mut headers = vec![("content-type", "application/grpc".to_owned())];
    headers.extend(more.iter().map(|(name, value)| (*name, (*value).to_owned())));
    Step::Head(200, headers)
}

fn trailers(code: &str, more: &[(&'static str, &str)]) -> Step {
    let mut headers = vec![("grpc-status", code.to_owned())];
    headers.extend(more.iter().map(|(name, value)| (*name, (*value).to_owned())));
    Step::Trailers(headers)
}

/// An answer that is only a status.
fn refused(code: &str, message: &str) -> Vec<Step> {
    vec![head(&[("grpc-status", code), ("grpc-message", message)])]
}

fn written(write: impl FnOnce(&mut ProtoWriter<'_>)) -> Bytes {
    let mut w = ProtoWriter::default();
    write(&mut w);
    framed(&w.finish())
}

fn put_task(w: &mut ProtoWriter<'_>, state: i64) {
    w.string(1, "t");
    w.message(3, |w| w.int(1, state));
}

/// A task as the answer to a get.
fn task() -> Bytes {
    written(|w| put_task(w, 3))
}

/// An update as a message of a stream.
fn update(text: &str) -> Bytes {
    written(|w| {
        w.message(4, |w| {
            w.string(1, "t");
            w.message(3, |w| {
                w.string(1, "a");
                w.message(4, |w| w.present_bytes(1, text.as_bytes()));
            });
        });
    })
}

/// A script that answers calls of one method; the others are unknown.
fn only(method: &'static str, steps: Vec<Step>) -> impl Fn(&Request) -> Vec<Step> + Send + Sync {
    move |request| {
        if request.uri().path().ends_with(&format!("/{method}")) { steps.clone() } else { refused("12", "unknown") }
    }
}

async fn get_with(steps: Vec<Step>) -> Result<crate::seen::TaskSeen, Error> {
    Server::start(only("GetTask", steps)).await.client().get("t", Some(0)).await
}

async fn stream_of(steps: Vec<Step>) -> (Server, Events) {
    let server = Server::start(only("SendStreamingMessage", steps)).await;
    let events = server.client().stream(&say("hi")).await.unwrap();
    (server, events)
}

/// The ids and texts of a stream's events, and how it ended.
async fn heard(events: &mut Events) -> (Vec<(Option<String>, String)>, Option<Error>) {
    let mut all = Vec::new();
    while let Some(event) = events.next().await {
        match event {
            Ok(event) => {
                let Seen::Artifact { artifact, .. } = event.seen else { panic!("{event:?}") };
                all.push((event.id, artifact.parts[0].as_text().unwrap().to_owned()));
            }
            Err(error) => return (all, Some(error)),
        }
    }
    (all, None)
}

#[tokio::test]
async fn a_call_has_one_message_and_the_metadata_of_grpc() {
    let server = Server::start(only("GetTask", vec![head(&[]), Step::Data(task()), trailers("0", &[])])).await;
    let options = Options {
        auth: PeerCredentials::Bearer("secret".into()),
        headers: vec![("X-A2A-Agent".into(), "x".into())],
        ..server.options()
    };
    let seen = Client::new(options).unwrap().get("t", Some(0)).await.unwrap();
    assert_eq!((seen.id.as_str(), seen.status.state), ("t", Some(State::Completed)));
    let asked = &server.asked("GetTask")[0];
    assert_eq!(asked.uri().path(), "/lf.a2a.v1.A2AService/GetTask");
    for (name, value) in [
        ("content-type", "application/grpc"),
        ("te", "trailers"),
        ("grpc-timeout", "120000m"),
        ("grpc-accept-encoding", "gzip"),
        ("a2a-version", "1.0"),
        ("authorization", "Bearer secret"),
        ("x-a2a-agent", "x"),
    ] {
        assert_eq!(asked.headers().get(name).map(|found| found.to_str().unwrap()), Some(value), "{name}");
    }
    assert_eq!(&asked.body()[..5], [0, 0, 0, 0, 5]);
}

#[tokio::test]
async fn messages_of_a_stream_are_counted_from_the_id_of_the_first() {
    let body = [update("one"), update("two"), update("three")].concat();
    let steps = vec![
        head(&[("a2a-event-id", "T.4")]),
        // Cut anywhere.
        Step::Data(Bytes::copy_from_slice(&body[..7])),
        Step::Data(Bytes::copy_from_slice(&body[7..])),
        trailers("0", &[("last-event-id", "T.9")]),
    ];
    let (server, mut events) = stream_of(steps).await;
    let (all, end) = heard(&mut events).await;
    assert!(end.is_none(), "{end:?}");
    let id = |text: &str| Some(text.to_owned());
    let expected = [(id("T.4"), "one"), (id("T.4+1"), "two"), (id("T.4+2"), "three")];
    assert_eq!(all, expected.map(|(id, text)| (id, text.to_owned())));
    assert_eq!(events.last_id(), Some("T.9"));
    assert!(server.asked("SendStreamingMessage")[0].headers().get("grpc-timeout").is_none());
}

#[tokio::test]
async fn a_status_alone_is_an_error_with_its_reason() {
    let mut details = written(|w| {
        w.int(1, 9);
        w.message(3, |w| {
            w.string(1, "type.googleapis.com/google.rpc.ErrorInfo");
            w.message(2, |w| w.string(1, "TASK_NOT_CANCELABLE"));
        });
    });
    let details = base64::Engine::encode(&base64::prelude::BASE64_STANDARD_NO_PAD, details.split_off(5));
    let steps = vec![head(&[
        ("grpc-status", "9"),
        ("grpc-message", "it%20is done %C3%A9"),
        ("grpc-status-details-bin", &details),
    ])];
    let server = Server::start(only("CancelTask", steps)).await;
    let error = server.client().cancel("t", None).await.unwrap_err();
    assert_eq!((error.stage, error.kind), (FailureStage::Refused, Kind::TaskNotCancelable));
    assert_eq!(error.message, "it is done é");
    let said = error.said.unwrap();
    assert_eq!((said.code, said.reason.as_deref()), (9, Some("TASK_NOT_CANCELABLE")));
}

#[tokio::test]
async fn an_error_in_the_middle_of_a_stream_comes_after_its_events() {
    let failing = vec![head(&[]), Step::Data(update("one")), trailers("14", &[("grpc-message", "shutting down")])];
    let (_server, mut events) = stream_of(failing).await;
    let (all, end) = heard(&mut events).await;
    assert_eq!(all, [(None, "one".to_owned())]);
    let end = end.unwrap();
    assert_eq!(
        (end.stage, end.kind, end.message.as_str()),
        (FailureStage::Refused, Kind::Unavailable, "shutting down")
    );
    assert!(events.next().await.is_none());
}

#[tokio::test]
async fn a_stream_that_is_reset_cut_or_has_no_status_is_broken() {
    let half = Bytes::copy_from_slice(&update("two")[..9]);
    for (steps, says) in [
        (vec![Step::Reset(Reason::INTERNAL_ERROR)], "broke off"),
        (vec![Step::Abort], "broke off"),
        (vec![Step::Data(half.clone()), trailers("0", &[])], "in the middle of a message"),
        (vec![Step::Data(half), Step::Trailers(vec![])], "in the middle of a message"),
        (vec![Step::Trailers(vec![])], "without a status"),
    ] {
        let steps = [vec![head(&[]), Step::Data(update("one"))], steps].concat();
        let (_server, mut events) = stream_of(steps.clone()).await;
        let (all, end) = heard(&mut events).await;
        assert_eq!(all.len(), 1, "{steps:?}");
        let end = end.unwrap();
        assert_eq!(end.stage, FailureStage::Broken, "{end}");
        assert!(end.message.contains(says), "{end}");
    }
}

#[tokio::test]
async fn a_connection_that_says_goodbye_finishes_its_calls_and_the_next_has_another() {
    let steps = vec![head(&[]), Step::GoAway, Step::Data(task()), trailers("0", &[])];
    let server = Server::start(only("GetTask", steps)).await;
    let client = server.client();
    for _ in 0..4 {
        assert_eq!(client.get("t", None).await.unwrap().id, "t");
    }
    assert_eq!(server.asked("GetTask").len(), 4);
}

#[tokio::test]
async fn answers_that_are_no_messages_of_grpc_are_unreadable() {
    for (steps, says) in [
        (vec![head(&[]), Step::Data(task()), Step::Data(task()), trailers("0", &[])], "more than one message"),
        (vec![head(&[]), trailers("0", &[])], "the answer is empty"),
        (vec![head(&[]), Step::Data(Bytes::from_static(&[0, 255, 0, 0, 0]))], "the limit here is"),
        (vec![head(&[]), Step::Data(Bytes::from_static(&[9, 0, 0, 0, 0])), trailers("0", &[])], "flag 9"),
        (vec![head(&[]), Step::Data(framed(b"\xff")), trailers("0", &[])], "not protobuf"),
        (vec![Step::Head(200, vec![("content-type", "text/html".into())])], "not gRPC but \"text/html\""),
    ] {
        let error = get_with(steps.clone()).await.unwrap_err();
        assert_eq!((error.stage, error.kind), (FailureStage::Unreadable, Kind::InvalidAgentResponse), "{steps:?}");
        assert!(error.message.contains(says), "{error}");
    }
}

#[tokio::test]
async fn an_error_after_the_message_is_the_answer() {
    let error = get_with(vec![head(&[]), Step::Data(task()), trailers("5", &[])]).await.unwrap_err();
    assert_eq!((error.stage, error.kind), (FailureStage::Refused, Kind::TaskNotFound));
    assert_eq!(error.message, "the call ended with NOT_FOUND and no message");
}

#[tokio::test]
async fn an_error_of_http_has_its_kind() {
    for (status, kind, stage) in [
        (401, Kind::Unauthenticated, FailureStage::Refused),
        (404, Kind::MethodNotFound, FailureStage::Refused),
        (502, Kind::Unavailable, FailureStage::Refused),
        (500, Kind::Internal, FailureStage::Refused),
    ] {
        let error = get_with(vec![Step::Head(status, vec![("content-type", "text/html".into())])]).await.unwrap_err();
        assert_eq!((error.stage, error.kind), (stage, kind), "{error}");
        assert!(error.message.contains(&format!("HTTP {status}")), "{error}");
    }
}

#[tokio::test]
async fn compressed_messages_are_read() {
    let packed = {
        use std::io::Write as _;
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(&task()[5..]).unwrap();
        let mut frame = framed(&encoder.finish().unwrap()).to_vec();
        frame[0] = 1;
        Bytes::from(frame)
    };
    let steps = |encoding| vec![head(&[("grpc-encoding", encoding)]), Step::Data(packed.clone()), trailers("0", &[])];
    assert_eq!(get_with(steps("gzip")).await.unwrap().id, "t");
    assert!(get_with(steps("zstd")).await.unwrap_err().message.contains("not offered"));
}

#[tokio::test]
async fn a_silent_server_is_left_and_learns_of_it() {
    let server = Server::start(|request: &Request| match request.uri().path().ends_with("GetTask") {
        true => vec![Step::UntilReset],
        false => refused("12", "unknown"),
    })
    .await;
    let mut options = server.options();
    options.timeouts.first_byte = Duration::from_millis(100);
    let error = Client::new(options).unwrap().get("t", None).await.unwrap_err();
    assert_eq!(error.stage, FailureStage::Broken);
    assert!(error.message.contains("did not answer within 0.1 s"), "{error}");
    assert_eq!(server.asked("GetTask")[0].headers()["grpc-timeout"], "100m");
    let late = get_with(refused("4", "Deadline Exceeded")).await.unwrap_err();
    assert!(late.is_passing(), "{late}");
    // Silent in the middle, and dropped.
    let (server, mut events) = stream_of(vec![head(&[]), Step::Data(update("one")), Step::UntilReset]).await;
    assert!(events.next().await.unwrap().is_ok());
    drop(events);
    while server.resets.lock().unwrap().is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(*server.resets.lock().unwrap(), [Reason::CANCEL]);
}

#[tokio::test]
async fn the_package_that_the_server_knows_is_found() {
    let server = Server::start(|request: &Request| match request.uri().path() {
        "/a2a.v1.A2AService/GetTask" => vec![head(&[]), Step::Data(task()), trailers("0", &[])],
        _ => refused("12", "unknown service"),
    })
    .await;
    let client = Client::new(Options { generation: None, ..server.options() }).unwrap();
    for _ in 0..2 {
        assert_eq!(client.get("t", None).await.unwrap().id, "t");
    }
    assert_eq!(client.discover().await.unwrap().peer().facts().name, "0.3 over gRPC");
    let paths: Vec<_> = server.asked("GetTask").iter().map(|one| one.uri().path().to_owned()).collect();
    assert_eq!(
        paths,
        ["/lf.a2a.v1.A2AService/GetTask", "/a2a.v1.A2AService/GetTask", "/a2a.v1.A2AService/GetTask"],
        "what was found stays"
    );
    // Neither.
    let server = Server::start(|_: &Request| refused("12", "unknown service")).await;
    let client = Client::new(Options { generation: None, ..server.options() }).unwrap();
    let error = client.get("t", None).await.unwrap_err();
    assert_eq!(error.kind, Kind::MethodNotFound);
    assert!(error.message.contains("lf.a2a.v1.A2AService or a2a.v1.A2AService"), "{error}");
    assert!(error.message.contains(&format!("grpc://{}", server.address)), "{error}");
}

#[tokio::test]
async fn a_card_is_asked_of_the_endpoint_itself() {
    let card = written(|w| {
        w.string(1, "Far");
        w.string(3, "h:1");
        w.string(14, "GRPC");
        w.message(7, |w| w.bool(1, true));
    });
    let server = Server::start(move |request: &Request| match request.uri().path() {
        "/a2a.v1.A2AService/GetAgentCard" => vec![head(&[]), Step::Data(card.clone()), trailers("0", &[])],
        "/a2a.v1.A2AService/GetTask" => vec![head(&[]), Step::Data(task()), trailers("0", &[])],
        _ => refused("12", "unknown service"),
    })
    .await;
    let client = Client::new(Options { generation: None, ..server.options() }).unwrap();
    let target = client.discover().await.unwrap();
    assert_eq!((target.card.as_ref().unwrap().name.as_str(), target.streams()), ("Far", true));
    assert_eq!(target.shown_url(), format!("grpc://{}", server.address), "the address that was given");
    assert_eq!(client.get("t", None).await.unwrap().id, "t");
    assert_eq!(client.extended_card().await.unwrap().name, "Far");
}

/// A server that answers every connection with these bytes and closes it.
async fn raw(answer: &'static [u8]) -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let _ = stream.read(&mut [0; 1024]).await;
                let _ = stream.write_all(answer).await;
                let _ = stream.shutdown().await;
            });
        }
    });
    address
}

async fn error_at(url: String) -> Error {
    Client::new(Options::new(url)).unwrap().get("t", None).await.unwrap_err()
}

/// A server with a certificate of its own, and that certificate.
async fn with_tls() -> (std::net::SocketAddr, String) {
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".into()]).unwrap();
    let script: Script = Arc::new(only("GetTask", vec![head(&[]), Step::Data(task()), trailers("0", &[])]));
    let key = rustls::pki_types::PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let mut config =
        rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key.into())
            .unwrap();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            if let Ok(stream) = acceptor.accept(stream).await {
                tokio::spawn(serve(stream, script.clone(), Default::default(), Default::default()));
            }
        }
    });
    (address, made.cert.pem())
}

#[tokio::test]
async fn a_server_of_another_protocol_is_told_as_that() {
    let http1 = raw(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n").await;
    let plain = Server::start(|_: &Request| refused("12", "unknown")).await.address;
    let (tls, _) = with_tls().await;
    for (url, says) in [
        (format!("grpc://{http1}"), "with TLS its address is grpcs://"),
        (format!("grpcs://{plain}"), "without TLS its address is grpc://"),
        (format!("grpc://{tls}"), "with TLS its address is grpcs://"),
        (format!("grpcs://{tls}"), "certificate"),
        ("grpc://127.0.0.1:1".to_owned(), "cannot be reached"),
    ] {
        let error = error_at(url.clone()).await;
        assert_eq!(error.stage, FailureStage::Unreachable, "{url}: {error}");
        assert!(error.message.contains(says), "{url}: {error}");
    }
}

/// The variable that tells the test below where the server is.
const TLS_SERVER: &str = "RIALTO_TEST_TLS_SERVER";

#[tokio::test]
async fn the_certificates_of_the_environment_are_trusted() {
    let (server, pem) = with_tls().await;
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&file, pem).unwrap();
    // The environment of this process is shared by all tests, so a process of its own asks.
    let child = tokio::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "grpc::tests::a_server_with_tls_is_asked", "--ignored"])
        .env("SSL_CERT_FILE", file.path())
        .env(TLS_SERVER, format!("grpcs://{server}"))
        .output()
        .await
        .unwrap();
    let said = String::from_utf8_lossy(&child.stdout);
    // A name without a test would succeed, too.
    assert!(child.status.success() && said.contains("1 passed"), "{said}");
}

#[tokio::test]
#[ignore = "a part of the test above"]
async fn a_server_with_tls_is_asked() {
    let client = Client::new(Options::new(std::env::var(TLS_SERVER).unwrap())).unwrap();
    assert_eq!(client.get("t", None).await.unwrap().id, "t");
}
