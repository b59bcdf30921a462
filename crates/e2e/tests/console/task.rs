//! The page of a task and the inbox in Chromium. Programs that the console offers are run with the SDKs of the tests.

use e2e::setup;

use super::{in_chromium, start};

#[test]
fn tasks_are_answered_compared_and_sent_again_in_chromium() {
    for client in ["python", "python-0.3"] {
        setup::ensure(&format!("{client}/.venv/.stamp"));
    }
    in_chromium(&start(""), "console_task.py");
}
