//! An MCP server started as a child process: spoken to through its pipes, in a process group that ends with it.

use std::io;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::AsyncReadExt as _;
use tokio::process::{ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::sync::watch;

use super::Options;
use crate::command::process::{Group, INHERITED, StderrTail};
use crate::guardian;

/// How long to read the stderr of a program that has ended.
const DRAIN: Duration = Duration::from_secs(1);

/// The program; dropping it kills its process group.
pub(super) struct McpProcess {
    group: Group,
    complaints: Arc<Mutex<StderrTail>>,
    /// Ends when stderr is closed.
    listening: watch::Receiver<()>,
}

impl McpProcess {
    pub(super) fn start(options: &Options, words: &[String]) -> io::Result<(McpProcess, ChildStdout, ChildStdin)> {
        let (program, arguments) = words.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let mut command = Command::new(program);
        command.args(arguments).kill_on_drop(true);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        if let Some(cwd) = &options.cwd {
            command.current_dir(cwd);
        }
        if !options.inherit_env {
            command.env_clear();
            command.envs(INHERITED.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
        }
        command.envs(&options.env);
        command.envs(options.secrets.iter().map(|(name, secret)| (name, secret.reveal())));
        let (mut child, guarded) = guardian::spawn(&mut command)?;
        let pipes = (child.stdout.take(), child.stdin.take(), child.stderr.take());
        let group = Group::of(child, guarded);
        let (Some(stdout), Some(stdin), Some(stderr)) = pipes else { return Err(io::ErrorKind::BrokenPipe.into()) };
        let secrets = options.secrets.values().map(|secret| secret.reveal().to_owned()).collect();
        let complaints = Arc::new(Mutex::new(StderrTail::new(secrets)));
        let (open, listening) = watch::channel(());
        tokio::spawn(listen(stderr, complaints.clone(), open));
        Ok((McpProcess { group, complaints, listening }, stdout, stdin))
    }

    /// Ends the program. Closing its stdin asks it to exit, so its tools can still handle a cancel.
    pub(super) async fn end(self, patience: Duration) {
        self.group.end(patience).await;
    }

    /// The tail of the stderr of a program that has ended, where servers write their log. Waits until stderr is closed,
    /// unless a process that left the group holds it open.
    pub(super) async fn last_words(&self) -> String {
        let mut listening = self.listening.clone();
        let closed = async { while listening.changed().await.is_ok() {} };
        let _ = tokio::time::timeout(DRAIN, closed).await;
        self.complaints.lock().unwrap_or_else(PoisonError::into_inner).text()
    }
}

/// Reads stderr until the pipe closes, at the latest with the group's end.
async fn listen(mut stderr: ChildStderr, complaints: Arc<Mutex<StderrTail>>, open: watch::Sender<()>) {
    let mut bytes = BytesMut::with_capacity(4 << 10);
    while let Ok(1..) = stderr.read_buf(&mut bytes).await {
        complaints.lock().unwrap_or_else(PoisonError::into_inner).push(&bytes.split());
        bytes.reserve(4 << 10);
    }
    drop(open);
}
