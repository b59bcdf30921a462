//! Workers of the tests: agents as functions, an endpoint on a socket, and callbacks that a test answers.

use std::collections::VecDeque;
use std::sync::Arc;

use futures_util::stream::{self, BoxStream, StreamExt as _};
use model::ports::Future;
use model::ports::agent::{Admission, Agent, AgentEvent, AgentMessage, EndState, Profile, Restart, Turn, TurnEnd};
use model::{Fault, Inbound, Task};
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use web::outbound::{PostRequest, PostResult};

pub(crate) fn echo() -> Arc<dyn Agent> {
    ::agents::builtin("echo", &::agents::BuiltinSettings::default()).unwrap()
}

type Act = dyn Fn(Turn) -> BoxStream<'static, AgentEvent> + Send + Sync;

/// An agent that is a function.
pub(crate) struct Acting {
    profile: Profile,
    act: Box<Act>,
}

pub(crate) fn acting(
    name: &str,
    restart: Restart,
    act: impl Fn(Turn) -> BoxStream<'static, AgentEvent> + Send + Sync + 'static,
) -> Arc<Acting> {
    let profile = Profile {
        name: name.into(),
        title: name.into(),
        description: "a test".into(),
        version: "0".into(),
        skills: Vec::new(),
        input_modes: vec!["*/*".into()],
        output_modes: vec!["*/*".into()],
        streaming: true,
        push: true,
        extensions: Vec::new(),
        restart,
        idempotent: false,
    };
    Arc::new(Acting { profile, act: Box::new(act) })
}

impl Agent for Acting {
    fn profile(&self) -> &Profile {
        &self.profile
    }
    fn admit(&self, _: &Inbound, _: Option<&Task>) -> Result<Admission, Fault> {
        Ok(Admission { undecided: false, restart: self.profile.restart, idempotent: false })
    }
    fn run(&self, turn: Turn) -> BoxStream<'static, AgentEvent> {
        (self.act)(turn)
    }
}

/// A turn that ends like this.
pub(crate) fn done(emissions: Vec<AgentEvent>, state: EndState, words: &str) -> BoxStream<'static, AgentEvent> {
    let words = (!words.is_empty()).then(|| AgentMessage::text(words));
    stream::iter(emissions).chain(stream::iter([AgentEvent::End(TurnEnd { state, words })])).boxed()
}

/// Headers and body of every request.
pub(crate) type Got = Arc<Mutex<Vec<(Vec<(String, String)>, String)>>>;

/// A seller's endpoint, on a socket of this machine. It gives the test's responses and records the requests.
pub(crate) struct SellerSocket {
    pub(crate) url: String,
    pub(crate) got: Got,
}

impl SellerSocket {
    /// Answers with these, one after the other, and with the last one from then on.
    pub(crate) async fn open(answers: Vec<(u16, String)>) -> SellerSocket {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/hook", listener.local_addr().unwrap());
        let got: Got = Arc::default();
        let (kept, answers) = (got.clone(), Arc::new(Mutex::new(VecDeque::from(answers))));
        tokio::spawn(async move {
            while let Ok((mut socket, _)) = listener.accept().await {
                let (kept, answers) = (kept.clone(), answers.clone());
                tokio::spawn(async move {
                    let mut bytes = Vec::new();
                    let (head, body) = loop {
                        let mut piece = [0; 4_096];
                        let read = socket.read(&mut piece).await.unwrap_or(0);
                        if read == 0 {
                            return;
                        }
                        bytes.extend_from_slice(&piece[..read]);
                        let text = String::from_utf8_lossy(&bytes).into_owned();
                        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
                        let length = head.lines().find_map(|line| {
                            let (name, value) = line.split_once(':')?;
                            name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().unwrap())
                        });
                        if body.len() >= length.unwrap_or(0) {
                            break (head.to_owned(), body.to_owned());
                        }
                    };
                    let headers = head.lines().skip(1).filter_map(|line| {
                        let (name, value) = line.split_once(':')?;
                        Some((name.to_ascii_lowercase(), value.trim().to_owned()))
                    });
                    kept.lock().push((headers.collect(), body));
                    let (status, body) = {
                        let mut answers = answers.lock();
                        if answers.len() > 1 { answers.pop_front().unwrap() } else { answers[0].clone() }
                    };
                    let answer = format!(
                        "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                        body.len()
                    );
                    let _ = socket.write_all(answer.as_bytes()).await;
                });
            }
        });
        SellerSocket { url, got }
    }
}

/// A request that a phone took.
#[derive(Clone)]
pub(crate) struct Letter {
    pub(crate) url: String,
    pub(crate) headers: http::HeaderMap,
    pub(crate) body: bytes::Bytes,
    pub(crate) any_address: bool,
}

/// The status and body of an answer, or the words of a failed connection.
type Answered = Result<(u16, String), String>;
type Answers = dyn Fn(usize, &Letter) -> Answered + Send + Sync;

/// Attempts that a test answers, for paused time.
pub(crate) struct Phone {
    pub(crate) calls: Mutex<Vec<(tokio::time::Instant, Letter)>>,
    answer: Box<Answers>,
}

impl Phone {
    pub(crate) fn new(answer: impl Fn(usize, &Letter) -> Answered + Send + Sync + 'static) -> Arc<Phone> {
        Arc::new(Phone { calls: Mutex::default(), answer: Box::new(answer) })
    }

    pub(crate) fn says(status: u16, body: &str) -> Answered {
        Ok((status, body.to_owned()))
    }
}

impl web::outbound::Post for Phone {
    fn post(&self, request: PostRequest) -> Future<'_, PostResult> {
        let PostRequest { url, headers, body, any_address, receiver, .. } = request;
        let body = bytes::Bytes::copy_from_slice(body.as_bytes().unwrap());
        let letter = Letter { url: url.to_string(), headers, body, any_address };
        let before = {
            let mut calls = self.calls.lock();
            calls.push((tokio::time::Instant::now(), letter.clone()));
            calls.len() - 1
        };
        let result = match (self.answer)(before, &letter) {
            Ok((status, body)) => {
                let status = http::StatusCode::from_u16(status).unwrap();
                PostResult::answered(&receiver, status, &http::HeaderMap::new(), Some(body.into()))
            }
            Err(words) => PostResult::failed(&receiver, &words),
        };
        Box::pin(std::future::ready(result))
    }
}
