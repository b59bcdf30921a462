//! A program at work: fed, listened to, stopped, and never left behind.
//!
//! It leads a process group of its own, and the group ends with it: on a cancel by SIGTERM and, after a while, SIGKILL; when
//! its turn is dropped by SIGKILL at once; and when the program itself has ended, so that nothing it left in the background
//! outlives its turn. When the server dies without a chance to do any of this, its [`guardian`] ends the group. A process that
//! moves to another group or session has left on purpose.

use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use model::ports::agent::{Cancelled, Turn};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::time::{Instant, sleep_until, timeout};

use super::Options;
use crate::guardian::{self, Guarded};

/// What a program may have of the server's environment without being told so.
pub(crate) const INHERITED: &[&str] = &["PATH", "HOME", "LANG", "TMPDIR", "TZ"];
/// How much of its complaints is repeated.
const TAIL_BYTES: usize = 2 << 10;
/// How long the pipes of a program that has ended are read, if something that left its group holds them open.
const DRAIN: Duration = Duration::from_secs(1);

pub(super) struct Process {
    group: Group,
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
    stdin: Option<ChildStdin>,
    feed: Feed,
    complaints: Tail,
    cancelled: Cancelled,
    kill_after: Duration,
    /// Asked to stop; why.
    stopping: Option<Stopping>,
    /// When patience ends: with a program that was asked to stop, or with pipes of one that has ended.
    deadline: Instant,
    exit: Option<io::Result<ExitStatus>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stopping {
    /// The caller wants it.
    Cancelled,
    /// It has said its last word and should go.
    Finished,
}

/// How a program ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Done,
    Stopped,
    Failed(String),
}

impl Process {
    pub(super) fn start(options: &Options, words: &Arc<[String]>, turn: &Turn, feed: Feed) -> io::Result<Process> {
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).kill_on_drop(true);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        if let Some(cwd) = &options.cwd {
            command.current_dir(cwd);
        }
        if !options.inherit_env {
            command.env_clear();
            for name in INHERITED {
                if let Some(value) = std::env::var_os(name) {
                    command.env(name, value);
                }
            }
        }
        command.envs(&options.env);
        command.envs(options.secrets.iter().map(|(name, secret)| (name, secret.reveal())));
        command.env("A2A_TASK_ID", turn.task.to_string());
        command.env("A2A_CONTEXT_ID", plain(turn.context.as_str()));
        command.env("A2A_TURN_ID", turn.id.to_string());
        command.env("A2A_ATTEMPT", turn.attempt.to_string());
        command.env("A2A_MESSAGE_ID", plain(turn.messages.last().map_or("", |inbound| &inbound.message.id)));
        command.env("A2A_CALLER", plain(&turn.caller));
        command.env("A2A_TENANT", plain(&turn.tenant));
        let (mut child, guarded) = guardian::spawn(&mut command)?;
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let secrets = options.secrets.values().map(|secret| secret.reveal().to_owned()).collect();
        Ok(Process {
            group: Group::of(child, guarded),
            stdout,
            stderr,
            stdin,
            feed,
            complaints: Tail::new(secrets),
            cancelled: turn.cancelled.clone(),
            kill_after: Duration::from_millis(options.kill_after_ms.unwrap_or(2_000)),
            stopping: None,
            deadline: Instant::now(),
            exit: None,
        })
    }

    /// What it prints next; none once it has ended and has been heard to the end. Meanwhile it is fed, its complaints are
    /// kept, and a cancel is passed on. Nothing is lost if this is dropped and called again.
    pub(super) async fn next(&mut self) -> Option<Bytes> {
        let mut out = BytesMut::new();
        let mut err = BytesMut::new();
        loop {
            if self.exit.is_some() && self.stdout.is_none() && self.stderr.is_none() {
                return None;
            }
            tokio::select! {
                biased;
                () = self.cancelled.clone(), if self.stopping != Some(Stopping::Cancelled) => {
                    self.stopping = Some(Stopping::Cancelled);
                    self.group.signal(Signal::TERM);
                    if self.exit.is_none() {
                        self.deadline = Instant::now() + self.kill_after;
                    }
                }
                () = sleep_until(self.deadline), if self.stopping.is_some() || self.exit.is_some() => {
                    self.group.signal(Signal::KILL);
                    if self.exit.is_some() {
                        // Whoever holds the pipes now has left the group.
                        (self.stdout, self.stderr) = (None, None);
                    }
                    self.deadline = Instant::now() + DRAIN;
                }
                fed = self.feed.go_on(self.stdin.as_mut()), if self.stdin.is_some() => {
                    // A program need not read what it is told: a closed pipe is its own business.
                    drop(fed);
                    self.stdin = None;
                }
                read = read(self.stdout.as_mut(), &mut out), if self.stdout.is_some() => match read {
                    Ok(1..) => return Some(out.freeze()),
                    Ok(0) | Err(_) => self.stdout = None,
                },
                read = read(self.stderr.as_mut(), &mut err), if self.stderr.is_some() => match read {
                    Ok(1..) => self.complaints.push(&err.split()),
                    Ok(0) | Err(_) => self.stderr = None,
                },
                exit = self.group.leader.wait(), if self.exit.is_none() => {
                    // At once: as long as anybody is left in it the group keeps its number, and numbers are not given
                    // again before all others were.
                    self.group.release();
                    self.exit = Some(exit);
                    self.deadline = Instant::now() + DRAIN;
                }
            }
        }
    }

    /// It has said its last word, and now has as long to end by itself as it would have after a cancel.
    pub(super) fn finish(&mut self) {
        if self.stopping.is_none() {
            self.stopping = Some(Stopping::Finished);
            self.deadline = Instant::now() + self.kill_after;
        }
    }

    /// How it ended, in words if it failed. Only after it has been heard to the end.
    pub(super) fn outcome(&self) -> Outcome {
        if self.stopping == Some(Stopping::Cancelled) {
            return Outcome::Stopped;
        }
        let how = match &self.exit {
            Some(Ok(status)) if status.success() => return Outcome::Done,
            Some(Ok(status)) => match (status.code(), status.signal()) {
                (Some(code), _) => format!("the program ended with exit code {code}"),
                (None, Some(signal)) => format!("the program was ended by {}", signal_name(signal)),
                (None, None) => "the program ended".to_owned(),
            },
            Some(Err(error)) => format!("the program could not be waited for: {error}"),
            None => "the program has not ended".to_owned(),
        };
        let complaints = self.complaints.text();
        Outcome::Failed(if complaints.is_empty() { how } else { format!("{how}: {complaints}") })
    }
}

/// A variable ends at its first zero byte; ids that callers choose may have one.
fn plain(value: &str) -> String {
    value.replace('\0', "")
}

async fn read(pipe: Option<&mut (impl tokio::io::AsyncRead + Unpin)>, into: &mut BytesMut) -> io::Result<usize> {
    match pipe {
        Some(pipe) => {
            into.reserve(16 << 10);
            pipe.read_buf(into).await
        }
        None => std::future::pending().await,
    }
}

/// The program and what it started.
pub(crate) struct Group {
    leader: Child,
    id: Option<Pid>,
    guarded: Option<Guarded>,
}

impl Group {
    pub(crate) fn of(leader: Child, guarded: Guarded) -> Group {
        let id = leader.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        Group { leader, id, guarded: Some(guarded) }
    }

    /// Ends what is left of it. From then on its number may be another group's.
    fn release(&mut self) {
        self.signal(Signal::KILL);
        self.id = None;
        self.guarded = None;
    }

    fn signal(&self, signal: Signal) {
        if let Some(id) = self.id {
            // A group that is gone needs none.
            let _ = kill_process_group(id, signal);
        }
    }

    /// Waits so long until the program has ended by itself, asks it to, waits once more, and ends it and all it started.
    pub(crate) async fn end(mut self, patience: Duration) {
        if timeout(patience, self.leader.wait()).await.is_err() {
            self.signal(Signal::TERM);
            let _ = timeout(patience, self.leader.wait()).await;
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.release();
    }
}

/// What a program is told on its stdin, before it is closed.
pub(super) struct Feed(Bytes);

impl Feed {
    pub(super) fn new(text: String) -> Feed {
        Feed(text.into())
    }

    async fn go_on(&mut self, stdin: Option<&mut ChildStdin>) -> io::Result<()> {
        let Some(stdin) = stdin else { return Ok(()) };
        while !self.0.is_empty() {
            stdin.write_buf(&mut self.0).await?;
        }
        Ok(())
    }
}

/// The last of what a program complained of, with its secrets taken out.
pub(crate) struct Tail {
    bytes: Vec<u8>,
    secrets: Vec<String>,
    /// More than is repeated, so that a secret at the edge is still whole.
    kept: usize,
}

impl Tail {
    pub(crate) fn new(secrets: Vec<String>) -> Tail {
        let longest = secrets.iter().map(String::len).max().unwrap_or(0);
        Tail { bytes: Vec::new(), secrets, kept: TAIL_BYTES + longest }
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        if self.bytes.len() > 2 * self.kept {
            self.bytes.drain(..self.bytes.len() - self.kept);
        }
    }

    pub(crate) fn text(&self) -> String {
        let edge = self.bytes.len().saturating_sub(self.kept);
        let mut text = String::from_utf8_lossy(&self.bytes[edge..]).into_owned();
        for secret in &self.secrets {
            text = text.replace(secret.as_str(), "[secret]");
        }
        let mut from = text.len().saturating_sub(TAIL_BYTES);
        while !text.is_char_boundary(from) {
            from += 1;
        }
        text[from..].trim().to_owned()
    }
}

fn signal_name(signal: i32) -> String {
    let name = match signal {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        4 => "SIGILL",
        6 => "SIGABRT",
        8 => "SIGFPE",
        9 => "SIGKILL",
        11 => "SIGSEGV",
        13 => "SIGPIPE",
        14 => "SIGALRM",
        15 => "SIGTERM",
        other => return format!("signal {other}"),
    };
    format!("{name} (signal {signal})")
}
