//! A running program: its input, its output, its end, and the end of its process group.
//!
//! The program leads its own process group, and the group ends with it: on a cancel by SIGTERM and, after a grace
//! period, SIGKILL; when its turn is dropped by SIGKILL at once; and when the program exits, so that no background
//! process outlives the turn. When the server dies before it can do this, its [`guardian`] ends the group. A
//! process that moves to another group or session is left alone.

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

/// Variables that every program inherits from the server's environment.
pub(crate) const INHERITED: &[&str] = &["PATH", "HOME", "LANG", "TMPDIR", "TZ"];
/// Bytes of stderr that are repeated.
const TAIL_BYTES: usize = 2 << 10;
/// How long to read the pipes of an exited program, if a process that left its group holds them open.
const DRAIN: Duration = Duration::from_secs(1);

pub(super) struct CommandProcess {
    group: Group,
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
    stdin: Option<ChildStdin>,
    feed: ProgramInput,
    complaints: StderrTail,
    cancelled: Cancelled,
    kill_after: Duration,
    /// Why it was asked to stop, if it was.
    stopping: Option<Stopping>,
    /// When to kill a program that was asked to stop, or to stop reading the pipes of one that has exited.
    deadline: Instant,
    exit: Option<io::Result<ExitStatus>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stopping {
    /// The caller cancelled.
    Cancelled,
    /// It has reported its end and should exit.
    Finished,
}

/// How a program ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ProgramEnd {
    Done,
    Stopped,
    Failed(String),
}

impl CommandProcess {
    pub(super) fn start(
        options: &Options,
        words: &Arc<[String]>,
        turn: &Turn,
        feed: ProgramInput,
    ) -> io::Result<CommandProcess> {
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
        Ok(CommandProcess {
            group: Group::of(child, guarded),
            stdout,
            stderr,
            stdin,
            feed,
            complaints: StderrTail::new(secrets),
            cancelled: turn.cancelled.clone(),
            kill_after: Duration::from_millis(options.kill_after_ms.unwrap_or(2_000)),
            stopping: None,
            deadline: Instant::now(),
            exit: None,
        })
    }

    /// The next output; none once the program has exited and its output is read. Meanwhile this writes its input,
    /// collects its stderr and passes a cancel on. Cancel safe: dropping and calling again loses nothing.
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
                        // A process that still holds the pipes has left the group.
                        (self.stdout, self.stderr) = (None, None);
                    }
                    self.deadline = Instant::now() + DRAIN;
                }
                fed = self.feed.go_on(self.stdin.as_mut()), if self.stdin.is_some() => {
                    // A program need not read its input: a closed pipe is no error.
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
                    // At once: while a process is left in the group its number stays taken, and the system gives a
                    // free number out again only after all others.
                    self.group.release();
                    self.exit = Some(exit);
                    self.deadline = Instant::now() + DRAIN;
                }
            }
        }
    }

    /// The program has reported its end; it now has the same grace period to exit as after a cancel.
    pub(super) fn finish(&mut self) {
        if self.stopping.is_none() {
            self.stopping = Some(Stopping::Finished);
            self.deadline = Instant::now() + self.kill_after;
        }
    }

    /// How it ended, with an error text if it failed. Valid only after [`CommandProcess::next`] returned none.
    pub(super) fn outcome(&self) -> ProgramEnd {
        if self.stopping == Some(Stopping::Cancelled) {
            return ProgramEnd::Stopped;
        }
        let how = match &self.exit {
            Some(Ok(status)) if status.success() => return ProgramEnd::Done,
            Some(Ok(status)) => match (status.code(), status.signal()) {
                (Some(code), _) => format!("the program ended with exit code {code}"),
                (None, Some(signal)) => format!("the program was ended by {}", signal_name(signal)),
                (None, None) => "the program ended".to_owned(),
            },
            Some(Err(error)) => format!("the program could not be waited for: {error}"),
            None => "the program has not ended".to_owned(),
        };
        let complaints = self.complaints.text();
        ProgramEnd::Failed(if complaints.is_empty() { how } else { format!("{how}: {complaints}") })
    }
}

/// A variable ends at its first zero byte, and ids that callers choose may contain one.
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

/// The program's process group.
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

    /// Kills the rest of the group. Afterwards its number may belong to another group.
    fn release(&mut self) {
        self.signal(Signal::KILL);
        self.id = None;
        self.guarded = None;
    }

    fn signal(&self, signal: Signal) {
        if let Some(id) = self.id {
            // The group may be gone already.
            let _ = kill_process_group(id, signal);
        }
    }

    /// Waits for the program to exit, sends SIGTERM, waits again, then kills its group.
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

/// The text written to the program's stdin, which is then closed.
pub(super) struct ProgramInput(Bytes);

impl ProgramInput {
    pub(super) fn new(text: String) -> ProgramInput {
        ProgramInput(text.into())
    }

    async fn go_on(&mut self, stdin: Option<&mut ChildStdin>) -> io::Result<()> {
        let Some(stdin) = stdin else { return Ok(()) };
        while !self.0.is_empty() {
            stdin.write_buf(&mut self.0).await?;
        }
        Ok(())
    }
}

/// The tail of the program's stderr, without its secrets.
pub(crate) struct StderrTail {
    bytes: Vec<u8>,
    secrets: Vec<String>,
    /// More than is repeated, so that a secret at the edge is still whole.
    kept: usize,
}

impl StderrTail {
    pub(crate) fn new(secrets: Vec<String>) -> StderrTail {
        let longest = secrets.iter().map(String::len).max().unwrap_or(0);
        StderrTail { bytes: Vec::new(), secrets, kept: TAIL_BYTES + longest }
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
