//! The guardian process, which ends the agents' programs when the server is killed: this binary, started by itself.

use std::path::Path;

use tokio::signal::unix::{SignalKind, signal};

/// Installs this binary as the guardian, also after its file was replaced by another version.
pub(crate) fn install() {
    let running = Path::new("/proc/self/exe");
    let program = if running.exists() { Some(running.to_owned()) } else { std::env::current_exe().ok() };
    if let Some(program) = program {
        agents::guardian::install(vec![program.into(), "guard-programs".into()]);
    }
}

/// Guards until standard input closes. Signals that stop the server are often sent to all its processes; the
/// guardian ignores them and stays until the server is gone.
pub(crate) fn run() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let _inside = runtime.enter();
    let _ignored = [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()].map(signal);
    agents::guardian::watch(std::io::stdin().lock());
    Ok(())
}
