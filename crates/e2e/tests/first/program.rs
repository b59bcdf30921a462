//! Runs the binary as a user does: in its own folder, with a plain command line.

use std::fs::{self, File, OpenOptions};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use e2e::http::{Connection, Request, Response};
use e2e::poll::PATIENCE;
use e2e::{setup, until};

pub(crate) struct Program {
    child: Child,
    addr: SocketAddr,
    /// Standard output and standard error, as a terminal shows them.
    screen: PathBuf,
}

impl Program {
    /// Starts `rialto` with these arguments and waits until it answers at the address.
    pub(crate) fn start(folder: &Path, words: &[&str], addr: SocketAddr) -> Program {
        Program::spawn(rialto(folder, words), folder, words, addr)
    }

    /// The same, run by another program that execs it.
    pub(crate) fn start_under(by: &str, its: &[&str], folder: &Path, words: &[&str], addr: SocketAddr) -> Program {
        let mut command = Command::new(by);
        command.current_dir(folder).args(its).arg(setup::binary()).args(words);
        Program::spawn(command, folder, words, addr)
    }

    fn spawn(mut command: Command, folder: &Path, words: &[&str], addr: SocketAddr) -> Program {
        let screen = folder.join("screen");
        let out = OpenOptions::new().create(true).append(true).open(&screen).unwrap();
        let errors: File = out.try_clone().unwrap();
        let child = command.stdout(out).stderr(errors).stdin(Stdio::null()).spawn().unwrap();
        let mut program = Program { child, addr, screen };
        until(&format!("rialto {} answers at {addr}", words.join(" ")), PATIENCE, || {
            let ended = program.child.try_wait().unwrap();
            assert!(ended.is_none(), "rialto {words:?} ended: {}", program.screen());
            program.try_get("/readyz").filter(|response| response.status() == 200)
        });
        program
    }

    /// The terminal's content, without log lines that the test's own requests cause.
    pub(crate) fn screen(&self) -> String {
        let all = fs::read_to_string(&self.screen).unwrap_or_default();
        all.lines().filter(|line| !line.contains(" INFO request method=")).map(|line| format!("{line}\n")).collect()
    }

    pub(crate) fn exchange(&self, request: &Request) -> Response {
        Connection::open(self.addr).and_then(|mut connection| connection.exchange(request)).unwrap()
    }

    fn try_get(&self, path: &str) -> Option<Response> {
        Connection::open(self.addr).and_then(|mut connection| connection.exchange(&Request::new("GET", path))).ok()
    }

    pub(crate) fn stop(mut self) {
        e2e::server::signal(self.child.id(), "TERM");
        let ended = until("rialto has ended", PATIENCE, || self.child.try_wait().unwrap());
        assert!(ended.success(), "{ended}");
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The binary in a folder, with these arguments.
pub(crate) fn rialto(folder: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(setup::binary());
    command.current_dir(folder).args(words);
    command
}

/// Runs a command to its end: whether it succeeded, standard output, standard error.
pub(crate) fn run(folder: &Path, words: &[&str]) -> (bool, String, String) {
    let Output { status, stdout, stderr } = rialto(folder, words).stdin(Stdio::null()).output().unwrap();
    (status.success(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

/// Runs a shell command from the screen: its output.
pub(crate) fn shell(folder: &Path, line: &str) -> String {
    let output = Command::new("sh").current_dir(folder).arg("-c").arg(line).output().unwrap();
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The command on a first screen, ready for a shell.
pub(crate) fn shown_call(screen: &str) -> String {
    let from = screen.find("  curl -s ").unwrap_or_else(|| panic!("no call in\n{screen}"));
    let to = screen[from..].find("}}'").unwrap_or_else(|| panic!("no end of the call in\n{screen}"));
    screen[from..from + to + 3].to_owned()
}
