//! One run of the system as its caller sees it: sent, approved when it asks, followed to its end; and the
//! invariants to check then.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use e2e::fold::is_settled;
use e2e::poll::until;
use e2e::{Client, fresh_id, message, to_task};
use serde_json::{Value, json};

use crate::office::{Asked, Office, REVISIONS};

const KEY: &str = "https://rialto.dev/ext/system/v1";
/// Time limit of a run with several kills in it.
const PATIENCE: Duration = Duration::from_secs(180);

/// Returns a client of a server that can be reached now.
pub(crate) type Anywhere<'a> = &'a (dyn Fn() -> Client + Sync);

/// The result of a run.
#[derive(Debug)]
pub(crate) struct Told {
    task: Value,
    /// Number of kills between its beginning and its end.
    kills: u64,
    /// The children whose end was seen in the log, and the number of requests to their agents at that time.
    sealed: BTreeMap<String, u64>,
}

/// A step of the run in its log.
#[derive(Debug)]
struct Step {
    run: String,
    no: u64,
    /// Node and visit, if the step has one.
    visit: Option<(String, u64)>,
    state: String,
    child: Option<String>,
}

fn steps(task: &Value) -> Vec<Step> {
    let said = task["history"].as_array().into_iter().flatten().chain([&task["status"]["message"]]);
    let entries = said.filter_map(|message| message["metadata"].get(KEY)).filter(|entry| entry.get("state").is_some());
    let text = |value: &Value| value.as_str().map(str::to_owned);
    entries
        .map(|entry| Step {
            run: text(&entry["run"]).unwrap(),
            no: entry["no"].as_u64().unwrap(),
            visit: text(&entry["node"]).map(|node| (node, entry["visit"].as_u64().unwrap())),
            state: text(&entry["state"]).unwrap(),
            child: text(&entry["child"]),
        })
        .collect()
}

fn is_end(step: &Step) -> bool {
    ["completed", "failed"].contains(&step.state.as_str()) && step.visit.is_some()
}

/// Retries until there is an answer: servers are killed and restarted.
fn call(anywhere: Anywhere<'_>, key: Option<&str>, method: &str, params: &Value) -> Value {
    until(method, PATIENCE, || {
        let client = anywhere();
        let client = key.map_or_else(|| client.clone(), |key| client.with("Idempotency-Key", key));
        client.try_rpc(method, params.clone()).ok()?.ok()
    })
}

/// Runs the system once, whatever happens to the servers meanwhile.
pub(crate) fn live(anywhere: Anywhere<'_>, office: &Office, kills: &AtomicU64) -> Told {
    let before = kills.load(Ordering::SeqCst);
    let immediately = json!({ "returnImmediately": true });
    let params = json!({ "message": message("begin"), "configuration": immediately });
    let opened = call(anywhere, Some(&fresh_id()), "SendMessage", &params);
    let id = opened["task"]["id"].as_str().expect("a task").to_owned();
    let approval = json!({ "message": to_task(message("approve"), &id), "configuration": immediately });
    let key = fresh_id();
    let mut sealed = BTreeMap::new();
    let task = until(&format!("the system's task {id} has settled"), PATIENCE, || {
        let task = call(anywhere, None, "GetTask", &json!({ "id": id, "historyLength": 1000 }));
        // The agent answered before the log had the end, so its count is final.
        for step in steps(&task).iter().filter(|step| is_end(step)) {
            if let Some(child) = &step.child {
                sealed.entry(child.clone()).or_insert_with(|| office.runs(child));
            }
        }
        let state = task["status"]["state"].as_str().unwrap_or_default();
        if state == "TASK_STATE_INPUT_REQUIRED" {
            call(anywhere, Some(&key), "SendMessage", &approval);
        }
        is_settled(state).then_some(task)
    });
    Told { task, kills: kills.load(Ordering::SeqCst) - before, sealed }
}

impl Told {
    pub(crate) fn kills(&self) -> u64 {
        self.kills
    }

    /// Number of turns with more than one request.
    pub(crate) fn repeats(&self, office: &Office) -> usize {
        steps(&self.task).first().map_or(0, |step| office.of_run(&step.run).iter().filter(|a| a.runs > 1).count())
    }

    pub(crate) fn check(&self, office: &Office) {
        let (task, steps) = (&self.task, steps(&self.task));
        assert_eq!(task["status"]["state"], "TASK_STATE_COMPLETED", "{steps:#?}");
        let artifact = |id: &str| task["artifacts"].as_array().unwrap().iter().find(|made| made["artifactId"] == id);
        assert_eq!(artifact("result").expect("a result")["parts"], json!([{ "text": "release" }]));
        let numbers: Vec<u64> = steps.iter().map(|step| step.no).collect();
        assert_eq!(numbers, (1..=steps.len() as u64).collect::<Vec<_>>(), "every step once, in order");
        assert!(steps.iter().all(|step| step.run == steps[0].run), "one run: {steps:#?}");

        let mut visits: BTreeMap<(String, u64), Vec<&str>> = BTreeMap::new();
        for step in &steps {
            if let Some(visit) = &step.visit {
                visits.entry(visit.clone()).or_default().push(&step.state);
            }
        }
        for (visit, states) in &visits {
            let times = |state: &str| states.iter().filter(|known| **known == state).count();
            assert_eq!(times("started"), 1, "{visit:?} {states:?}");
            assert!(times("completed") + times("failed") <= 1, "{visit:?} {states:?}");
        }
        self.check_way(&visits);
        for (node, visit) in visits.keys().filter(|visit| visits[*visit].contains(&"completed")) {
            let made = artifact(&format!("node/{node}/{visit}")).expect("what a node gave is kept");
            assert!(!made["parts"].as_array().unwrap().is_empty());
        }
        self.check_runs(office, &steps);
    }

    /// The run followed the graph: only nodes with the rule `fail` may have failed by a kill.
    fn check_way(&self, visits: &BTreeMap<(String, u64), Vec<&str>>) {
        let of = |node: &str| visits.iter().filter(|((known, _), _)| known == node).map(|(_, s)| s).collect::<Vec<_>>();
        for (node, times) in [("split", 1), ("good", 1), ("gather", 1), ("vote", 1), ("left", 1), ("right", 1)] {
            assert_eq!(of(node).len(), times, "{node}: {visits:?}");
        }
        for (node, times) in [("draft", REVISIONS + 1), ("critic", REVISIONS + 1), ("release", 1)] {
            let all = of(node);
            assert_eq!(all.len(), times, "{node}: {visits:?}");
            assert!(all.iter().all(|states| states.contains(&"completed")), "{node}: {visits:?}");
        }
        let bad = of("bad");
        assert_eq!(bad.len(), 2, "it was tried again once: {visits:?}");
        assert!(bad.iter().all(|states| states.contains(&"failed")));
        assert!(of("release")[0].contains(&"approved"), "{visits:?}");
        let frail = of("frail");
        assert_eq!(frail.len(), 1);
        assert!(frail[0].contains(&"completed") || self.kills > 0, "nothing happened to it: {visits:?}");
    }

    fn check_runs(&self, office: &Office, steps: &[Step]) {
        let asked = office.of_run(&steps[0].run);
        let started: Vec<&String> =
            steps.iter().filter(|step| step.state == "started").filter_map(|step| step.child.as_ref()).collect();
        for Asked { agent, node, child, runs, works, .. } in &asked {
            assert!(started.contains(&child), "{node} ran as {child}, of which the log knows nothing");
            assert!(*runs <= 1 + self.kills, "{node} ran {runs} times with {} kills", self.kills);
            match agent.as_str() {
                "fail" => assert_eq!(*runs, 1, "{node} must not run again"),
                "once" => assert_eq!(*works, 1, "{node} was done {works} times"),
                _ => {}
            }
        }
        for step in steps.iter().filter(|step| is_end(step)) {
            let child = step.child.as_ref().expect("a visit that ended had a task");
            let turns: Vec<&Asked> = asked.iter().filter(|asked| asked.child == *child).collect();
            let (node, _) = step.visit.as_ref().unwrap();
            // A turn that `fail` ended may have been killed before its agent got the request.
            let unheard = ["frail", "right"].contains(&node.as_str()) && step.state == "failed";
            assert!(turns.len() == 1 || (turns.is_empty() && unheard), "one turn for each visit: {step:?} {turns:?}");
        }
        for (child, runs) in &self.sealed {
            assert_eq!(office.runs(child), *runs, "{child} ran again after its end was told");
        }
    }
}
