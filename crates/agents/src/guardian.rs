//! Kills the programs of a server that died.
//!
//! A process that is killed or aborts runs no destructors, so it cannot stop the programs it started. Therefore a
//! second process, the guardian, learns of every program through a pipe whose other end only the server holds. When
//! the pipe closes, the server is gone, and the guardian kills the process groups of all remaining programs. It is
//! started with the first program, and again if it dies.
//!
//! A line of the pipe is `+ NAME` before a program is started, `= NAME GROUP` when it runs, and `- NAME` when its
//! group has ended. If the server dies between the first two, the guardian finds the program by its environment,
//! which contains its name ([`VARIABLE`]). A process that moves to another group or session is left alone.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::io::{self, BufRead, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{ChildStdin, Stdio};
use std::sync::LazyLock;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::process::{Pid, Signal, getpgid, kill_process_group};
use tokio::process::{Child, Command};
use uuid::Uuid;

/// The environment variable with a program's name for the guardian.
pub const VARIABLE: &str = "RIALTO_PROGRAM";

/// How often, and at what interval, the guardian looks for a program that was being started when the server died.
const LOOKS: u32 = 40;
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);

static GUARDIAN: Mutex<Guardian> =
    Mutex::new(Guardian { words: Vec::new(), running: None, programs: BTreeMap::new(), next: 0 });

/// Identifies the programs of this server.
static SERVER: LazyLock<Uuid> = LazyLock::new(Uuid::now_v7);

struct Guardian {
    /// The command line that runs [`watch`]; empty if none is installed.
    words: Vec<OsString>,
    running: Option<Running>,
    /// Programs by number, with their process group once they run.
    programs: BTreeMap<u64, Option<i32>>,
    next: u64,
}

struct Running {
    process: std::process::Child,
    pipe: ChildStdin,
}

/// Sets the command line of the guardian process, which has to call [`watch`] on its standard input.
pub fn install(words: Vec<OsString>) {
    GUARDIAN.lock().words = words;
}

/// Registration of a program with the guardian, until dropped.
pub(crate) struct Guarded(u64);

/// Starts a program in its own process group; the guardian knows of it before its first instruction.
pub(crate) fn spawn(command: &mut Command) -> io::Result<(Child, Guarded)> {
    command.process_group(0);
    let guarded = {
        let mut guardian = GUARDIAN.lock();
        let number = guardian.next;
        guardian.next += 1;
        guardian.programs.insert(number, None);
        guardian.tell(&format!("+ {}\n", name(number)));
        Guarded(number)
    };
    command.env(VARIABLE, name(guarded.0));
    let child = command.spawn()?;
    if let Some(group) = child.id().and_then(|id| i32::try_from(id).ok()) {
        let mut guardian = GUARDIAN.lock();
        guardian.programs.insert(guarded.0, Some(group));
        guardian.tell(&format!("= {} {group}\n", name(guarded.0)));
    }
    Ok((child, guarded))
}

impl Drop for Guarded {
    fn drop(&mut self) {
        let mut guardian = GUARDIAN.lock();
        guardian.programs.remove(&self.0);
        guardian.tell(&format!("- {}\n", name(self.0)));
    }
}

fn name(number: u64) -> String {
    format!("{}.{number}", SERVER.as_simple())
}

impl Guardian {
    /// Sends a line to the guardian, and starts a new one if the last is gone or does not read. A program without a
    /// guardian still ends with its turn, so errors are not fatal.
    fn tell(&mut self, line: &str) {
        if self.words.is_empty() {
            return;
        }
        if let Some(running) = &mut self.running {
            match running.pipe.write_all(line.as_bytes()) {
                Ok(()) => return,
                Err(error) => tracing::warn!(%error, "the guardian of programs is gone or stuck; another is started"),
            }
            self.dismiss();
        }
        if let Err(error) = self.start() {
            self.dismiss();
            tracing::error!(%error, "programs are not guarded: they would go on if this server were killed");
        }
    }

    /// Starts a guardian and sends it all running programs.
    fn start(&mut self) -> io::Result<()> {
        let Some((program, arguments)) = self.words.split_first() else { return Ok(()) };
        let mut command = std::process::Command::new(program);
        command.args(arguments).env_clear().current_dir("/").process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut process = command.spawn()?;
        let pipe = process.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let Running { pipe, .. } = self.running.insert(Running { process, pipe });
        // The server must never wait for the guardian.
        fcntl_setfl(&pipe, fcntl_getfl(&pipe)? | OFlags::NONBLOCK)?;
        for (number, group) in &self.programs {
            let name = name(*number);
            match group {
                None => pipe.write_all(format!("+ {name}\n").as_bytes())?,
                Some(group) => pipe.write_all(format!("= {name} {group}\n").as_bytes())?,
            }
        }
        Ok(())
    }

    /// Stops the guardian. It is killed first: a closed pipe would mean that the server is gone.
    fn dismiss(&mut self) {
        if let Some(Running { mut process, pipe }) = self.running.take() {
            let _ = process.kill();
            let _ = process.wait();
            drop(pipe);
        }
    }
}

/// Runs the guardian: reads lines until the pipe closes, then kills the remaining groups.
pub fn watch(pipe: impl BufRead) {
    let mut programs: HashMap<String, Option<Pid>> = HashMap::new();
    for line in pipe.lines() {
        let Ok(line) = line else { break };
        let mut words = line.split(' ');
        match (words.next(), words.next(), words.next()) {
            (Some("+"), Some(name), None) => drop(programs.insert(name.to_owned(), None)),
            (Some("="), Some(name), Some(group)) => {
                programs.insert(name.to_owned(), group.parse().ok().and_then(group_of));
            }
            (Some("-"), Some(name), None) => drop(programs.remove(name)),
            // A line cut off by the server's death.
            _ => {}
        }
    }
    let (running, mut starting): (Vec<_>, Vec<_>) = programs.into_iter().partition(|(_, group)| group.is_some());
    for group in running.into_iter().filter_map(|(_, group)| group) {
        // The group may be gone already.
        let _ = kill_process_group(group, Signal::KILL);
    }
    for _ in 0..LOOKS {
        starting.retain(|(name, _)| !find_and_kill(name));
        if starting.is_empty() {
            return;
        }
        std::thread::sleep(BETWEEN_LOOKS);
    }
}

/// The process group of this number. Numbers below 2 are refused: no program has one, and a signal to group 1 would
/// go to every process.
fn group_of(number: i32) -> Option<Pid> {
    Pid::from_raw(number).filter(|_| number > 1)
}

/// Kills the group of the program of this name, if it runs.
fn find_and_kill(name: &str) -> bool {
    let variable = format!("{VARIABLE}={name}");
    let Ok(processes) = std::fs::read_dir("/proc") else { return false };
    let mut found = false;
    for process in processes.flatten() {
        let id = process.file_name().to_str().and_then(|id| id.parse().ok()).and_then(group_of);
        let Some(id) = id else { continue };
        let Ok(environment) = std::fs::read(process.path().join("environ")) else { continue };
        let named = environment.split(|byte| *byte == 0).any(|one| one == variable.as_bytes());
        if named && getpgid(Some(id)) == Ok(id) {
            found |= kill_process_group(id, Signal::KILL).is_ok();
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::{Child, Command, Stdio};

    use super::*;

    /// A shell that prints the pid of its long-running child.
    fn program(name: &str) -> (Child, i32) {
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 1000 & echo $!; wait"]).env(VARIABLE, name).process_group(0).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        (child, line.trim().parse().unwrap())
    }

    fn runs(id: i32) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        stat.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with(['Z', 'X']))
    }

    fn is_killed(child: &mut Child, grandchild: i32) {
        assert_eq!(child.wait().unwrap().signal(), Some(9));
        while runs(grandchild) {
            std::thread::yield_now();
        }
    }

    #[test]
    fn programs_that_run_when_the_pipe_closes_are_killed_with_what_they_started() {
        let (mut child, grandchild) = program("a.1");
        let lines = format!("+ a.1\n= a.1 {}\n= a.2 nonsense\n= a.3", child.id());
        watch(lines.as_bytes());
        is_killed(&mut child, grandchild);
    }

    #[test]
    fn a_program_that_was_being_started_is_found_by_its_name() {
        let name = format!("{}.7", Uuid::now_v7().as_simple());
        let (mut child, grandchild) = program(&name);
        watch(format!("+ {name}\n").as_bytes());
        is_killed(&mut child, grandchild);
    }

    #[test]
    fn no_line_names_a_group_that_is_every_process() {
        for number in [i32::MIN, -2, -1, 0, 1] {
            assert_eq!(group_of(number), None, "{number}");
        }
        assert_eq!(group_of(2), Pid::from_raw(2));
    }

    #[test]
    fn programs_that_have_ended_are_left_alone() {
        let name = format!("{}.8", Uuid::now_v7().as_simple());
        let (mut child, grandchild) = program(&name);
        watch(format!("+ {name}\n= {name} {}\n- {name}\n", child.id()).as_bytes());
        assert!(runs(grandchild) && child.try_wait().unwrap().is_none());
        watch(format!("= {name} {}\n", child.id()).as_bytes());
        is_killed(&mut child, grandchild);
    }
}
