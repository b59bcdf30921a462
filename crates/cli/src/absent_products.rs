//! Data of products that this build does not have. A start leaves it alone and says so, once for each product.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use model::ports::store::{Store, StoreError, TaskQuery};
use model::{State, TaskId};

use crate::products::PRODUCTS;
use crate::roster::BuiltAgents;

/// Most records that are counted.
const MOST_RECORDS: u64 = 100_000;
/// Rows of tasks that are looked at for each agent and state, newest first.
const TASK_ROWS: u32 = 10_000;
/// Most tasks whose push configs or agents are read.
const MOST_TASKS: usize = 1_000;
/// Most agents that a sentence names.
const MOST_AGENTS: usize = 10;

/// The names under which a product stores data. They are listed here, too, since they must be known without the product.
struct StoredNames {
    product: &'static str,
    /// The beginnings of its record kinds.
    records: &'static [&'static str],
    /// The agents of its tasks. Systems and assistants have names that the config gives them.
    agents: &'static [&'static str],
    /// The dialects of tasks and push configs.
    #[cfg_attr(not(test), allow(dead_code, reason = "a test compares them with the products"))]
    dialects: &'static [&'static str],
}

static STORED: &[StoredNames] = &[
    StoredNames { product: "market", records: &["market/"], agents: &["uumit.market"], dialects: &["uumit"] },
    StoredNames { product: "systems", records: &["orloj/"], agents: &[], dialects: &["orloj"] },
    StoredNames { product: "shop", records: &["shop/", "oauth/"], agents: &["store"], dialects: &["aly"] },
    StoredNames { product: "assistants", records: &[], agents: &[], dialects: &["langgraph", "langgraph_current"] },
];

/// The data of an absent product.
#[derive(Debug, Default, PartialEq, Eq)]
struct AbsentData {
    product: &'static str,
    records: u64,
    open_tasks: u64,
    push_configs: u64,
}

impl fmt::Display for AbsentData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let AbsentData { product, records, open_tasks, push_configs } = self;
        write!(
            f,
            "this build has no product {product:?}: leaving alone {}, {}, {}; build with --features {product} to serve them",
            counted(*records, "record"),
            counted(*open_tasks, "open task"),
            counted(*push_configs, "push config")
        )
    }
}

/// Open tasks of agents that are neither served nor known to be an absent product's: systems and assistants have names
/// that a config gives them.
#[derive(Debug, Default, PartialEq, Eq)]
struct UnservedTasks {
    by_agent: BTreeMap<Arc<str>, u64>,
    push_configs: u64,
}

impl fmt::Display for UnservedTasks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let agents: Vec<String> =
            self.by_agent.iter().take(MOST_AGENTS).map(|(name, n)| format!("{name} ({n})")).collect();
        let more = if self.by_agent.len() > MOST_AGENTS { " and others" } else { "" };
        write!(
            f,
            "leaving alone {} with {} of agents that are not served: {}{more}; add the agents to the config, or build with all products",
            counted(self.by_agent.values().sum(), "open task"),
            counted(self.push_configs, "push config"),
            agents.join(", ")
        )
    }
}

fn counted(n: u64, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

fn absent() -> impl Iterator<Item = &'static StoredNames> {
    STORED.iter().filter(|names| PRODUCTS.iter().all(|product| product.name() != names.product))
}

/// Whether this build lacks a product, so that its data may hold turns of agents that only another build serves.
pub(crate) fn lacks_products() -> bool {
    absent().next().is_some()
}

/// The data that this build leaves alone, a sentence for each kind. `served` are the names of the agents that are
/// served, if they are known.
pub(crate) async fn left_alone(store: &dyn Store, served: Option<&[Arc<str>]>) -> Result<Vec<String>, StoreError> {
    if !lacks_products() {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    for names in absent() {
        let data = count(store, names, served.unwrap_or_default()).await?;
        if data != (AbsentData { product: data.product, ..AbsentData::default() }) {
            found.push(data.to_string());
        }
    }
    if let Some(served) = served {
        let others = count_unserved(store, served).await?;
        if !others.by_agent.is_empty() {
            found.push(others.to_string());
        }
    }
    Ok(found)
}

/// The same for a start, which warns of each.
pub(crate) async fn warn(store: &dyn Store, built: &BuiltAgents) -> Vec<String> {
    let served: Vec<Arc<str>> = built.agents().iter().map(|agent| agent.profile().name.clone()).collect();
    match left_alone(store, Some(&served)).await {
        Ok(found) => {
            found.iter().for_each(|sentence| tracing::warn!("{sentence}"));
            found
        }
        Err(error) => {
            tracing::warn!(%error, "cannot count the data of absent products");
            Vec::new()
        }
    }
}

/// The ids of open tasks, of one agent or of all.
async fn open_tasks(store: &dyn Store, agent: Option<Arc<str>>) -> Result<Vec<TaskId>, StoreError> {
    let mut open = Vec::new();
    for state in State::ALL.into_iter().filter(|state| !state.is_terminal()) {
        let query = TaskQuery { agent: agent.clone(), state: Some(state), rows: TASK_ROWS, ..TaskQuery::default() };
        open.extend(store.tasks(query).await?.tasks);
    }
    Ok(open)
}

async fn count(store: &dyn Store, names: &StoredNames, served: &[Arc<str>]) -> Result<AbsentData, StoreError> {
    let mut data = AbsentData { product: names.product, ..AbsentData::default() };
    for prefix in names.records {
        data.records += store.count_records((*prefix).into(), MOST_RECORDS).await?;
    }
    for agent in names.agents.iter().filter(|agent| served.iter().all(|name| **name != ***agent)) {
        let open = open_tasks(store, Some((*agent).into())).await?;
        data.open_tasks += open.len() as u64;
        for task in open.into_iter().take(MOST_TASKS) {
            data.push_configs += store.push(task).await?.len() as u64;
        }
    }
    Ok(data)
}

async fn count_unserved(store: &dyn Store, served: &[Arc<str>]) -> Result<UnservedTasks, StoreError> {
    let named = |agent: &str| STORED.iter().any(|names| names.agents.contains(&agent));
    let mut found = UnservedTasks::default();
    for task in open_tasks(store, None).await?.into_iter().take(MOST_TASKS) {
        let Some(head) = store.head(task).await? else { continue };
        if !served.contains(&head.agent) && !named(&head.agent) {
            *found.by_agent.entry(head.agent).or_default() += 1;
            found.push_configs += store.push(task).await?.len() as u64;
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{StoreLocation, StoreTuning};

    /// A folder of an earlier release, with data of every product.
    const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../e2e/fixtures/data-0.1");

    #[test]
    fn the_names_are_those_of_the_products_in_this_build() {
        for product in PRODUCTS {
            let names = STORED.iter().find(|names| names.product == product.name());
            let names = names.unwrap_or_else(|| panic!("{} is not in the table", product.name()));
            for wire in product.wires() {
                assert!(names.dialects.contains(&wire.name()), "{}: {}", product.name(), wire.name());
            }
        }
        #[cfg(feature = "market")]
        assert!(STORED[0].agents.contains(&market::service::AGENT));
        #[cfg(feature = "shop")]
        assert!(STORED[2].agents.contains(&shop::service::AGENT));
    }

    #[test]
    fn a_warning_says_what_is_left_alone_and_how_to_serve_it() {
        let data = AbsentData { product: "market", records: 12, open_tasks: 3, push_configs: 1 };
        assert_eq!(
            data.to_string(),
            "this build has no product \"market\": leaving alone 12 records, 3 open tasks, 1 push config; build with --features market to serve them"
        );
        let unserved = UnservedTasks { by_agent: [("triage".into(), 2), ("deep".into(), 1)].into(), push_configs: 0 };
        assert_eq!(
            unserved.to_string(),
            "leaving alone 3 open tasks with 0 push configs of agents that are not served: deep (1), triage (2); add the agents to the config, or build with all products"
        );
    }

    #[tokio::test]
    async fn data_of_products_is_counted_in_every_build_and_stays_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::copy(format!("{FOLDER}/rialto.db"), folder.path().join("rialto.db")).unwrap();
        let open = async || {
            let choice = StoreLocation::default().options(&StoreTuning::of_command(folder.path())).unwrap();
            choice.visit().await.unwrap()
        };
        let store = open().await;
        let before = store.health().await.unwrap();
        let mut records = store.count_records("server/".into(), MOST_RECORDS).await.unwrap();
        for names in STORED {
            let data = count(&*store, names, &[]).await.unwrap();
            assert_eq!(data.records > 0, ["market", "shop"].contains(&names.product), "{data}");
            records += data.records;
            if names.product == "market" {
                assert!(data.open_tasks > 0, "{data}");
                let served = count(&*store, names, &["uumit.market".into()]).await.unwrap();
                assert_eq!((served.open_tasks, served.records), (0, data.records));
            }
        }
        assert_eq!(records, before.records, "every record kind is in the table");
        store.close().await;
        let after = open().await.health().await.unwrap();
        assert_eq!((after.records, after.entries, after.states), (before.records, before.entries, before.states));
    }
}
