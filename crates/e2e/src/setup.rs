//! Requirements outside this workspace: the binary, and the environments of third-party clients.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The workspace of this crate.
pub fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("crates/e2e stands in a workspace")
}

/// The folder of the scenario programs.
pub fn clients() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("clients")
}

/// The binary under test: `RIALTO_BIN`, else the release build of this workspace, built once.
pub fn binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| {
        if let Some(given) = std::env::var_os("RIALTO_BIN") {
            return PathBuf::from(given);
        }
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let built = Command::new(cargo)
            .args(["build", "--release", "--quiet", "-p", "rialto"])
            .current_dir(workspace())
            .status()
            .expect("cargo runs");
        assert!(built.success(), "cargo build --release -p rialto failed");
        let target = std::env::var_os("CARGO_TARGET_DIR")
            .map_or_else(|| workspace().join("target"), |dir| workspace().join(dir));
        target.join("release").join("rialto")
    })
}

/// Runs `scripts/setup-e2e` once when `marker`, a path below `clients/`, is missing.
pub fn ensure(marker: &str) -> PathBuf {
    static SETUP: OnceLock<()> = OnceLock::new();
    let path = clients().join(marker);
    if !path.exists() {
        SETUP.get_or_init(|| {
            let done = Command::new(workspace().join("scripts/setup-e2e")).status().expect("scripts/setup-e2e runs");
            assert!(done.success(), "scripts/setup-e2e failed");
        });
    }
    assert!(path.exists(), "scripts/setup-e2e did not make {marker}");
    path
}

/// Runs a scenario program to its end and prints its output if it failed.
///
/// # Panics
/// When the program ends with anything but success.
pub fn run_scenarios(command: &mut Command) {
    let output = command.output().expect("the scenario program starts");
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    eprintln!("{said}");
    assert!(output.status.success(), "{command:?} ended with {}:\n{said}", output.status);
    assert!(said.contains("ok "), "{command:?} reported no scenario");
}

/// Debian's `faketime` library, which sets another clock.
///
/// # Panics
/// When it is not installed.
pub fn faketime() -> String {
    let found = ["x86_64", "aarch64"].map(|arch| format!("/usr/lib/{arch}-linux-gnu/faketime/libfaketime.so.1"));
    let found = found.into_iter().find(|path| Path::new(path).exists());
    found.expect("this test needs libfaketime: run scripts/setup-e2e, or install Debian's package `libfaketime`")
}
