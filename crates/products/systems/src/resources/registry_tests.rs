//! Tests of `registry`.

use super::*;

fn document(kind: ResourceKind, name: &str, spec: &str) -> ResourceDocument {
    let text = format!(r#"{{"kind":"{}","metadata":{{"name":"{name}"}},"spec":{spec}}}"#, kind.name());
    ResourceDocument::read(&text, None).unwrap()
}

fn configured(name: &str) -> Arc<Resource> {
    Arc::new(Resource::of_config(ResourceKind::Agent, name, Json::parse(r#"{"kind":"echo"}"#).unwrap()))
}

/// A registry with one agent of the config.
fn registry() -> ResourceRegistry {
    let (registry, _) = ResourceRegistry::new();
    registry.show(&StoredResources::default(), [configured("echo")]);
    registry
}

/// Makes a change as the binary would, without a store.
fn write(registry: &ResourceRegistry, write: &ResourceWrite) -> Result<(ChangeOutcome, Arc<Resource>), Error> {
    match registry.draft(write, Time(1))? {
        ChangePlan::Nothing(known) => Ok((ChangeOutcome::Unchanged, known)),
        ChangePlan::Change(change) => {
            registry.show(&ResourceRegistry::after(&change), change.made.iter().cloned().chain([configured("echo")]));
            Ok((change.outcome, change.subject))
        }
    }
}

fn create(registry: &ResourceRegistry, name: &str) -> Result<(ChangeOutcome, Arc<Resource>), Error> {
    write(registry, &ResourceWrite::Create(document(ResourceKind::AgentSystem, name, r#"{"agents":["echo"]}"#)))
}

#[test]
fn versions_count_up_and_a_stale_one_is_refused_with_what_to_do() {
    let registry = registry();
    let (outcome, first) = create(&registry, "a").unwrap();
    assert_eq!((outcome, first.revision, first.generation), (ChangeOutcome::Created, 1, 1));
    assert!(matches!(create(&registry, "a"), Err(Error::Exists(says)) if says.contains("update it with PUT")));
    let other = document(ResourceKind::AgentSystem, "a", r#"{"agents":["echo"],"title":"A"}"#);
    let (outcome, second) =
        write(&registry, &ResourceWrite::Update { document: other.clone(), expect: Some(1) }).unwrap();
    assert_eq!((outcome, second.revision, second.generation), (ChangeOutcome::Configured, 2, 2));
    let stale = write(&registry, &ResourceWrite::Update { document: other.clone(), expect: Some(1) });
    assert!(matches!(stale, Err(Error::Stale(says)) if says.contains("version 2 now, not 1; get it again")));
    let (outcome, _) = write(&registry, &ResourceWrite::Apply(other.clone())).unwrap();
    assert_eq!((outcome, registry.revision()), (ChangeOutcome::Unchanged, 2));
    let mut labelled = other;
    labelled.labels.insert("x".into(), "y".into());
    let (_, third) = write(&registry, &ResourceWrite::Apply(labelled)).unwrap();
    assert_eq!((third.revision, third.generation), (3, 2), "only its labels are others");
    let gone = |expect| ResourceWrite::Delete { kind: ResourceKind::AgentSystem, name: "a".into(), expect };
    assert!(matches!(write(&registry, &gone(Some(2))), Err(Error::Stale(_))));
    assert_eq!(write(&registry, &gone(Some(3))).unwrap().0, ChangeOutcome::Deleted);
    assert!(matches!(write(&registry, &gone(None)), Err(Error::Missing(_))));
}

#[test]
fn the_same_members_in_another_order_are_a_change() {
    let registry = registry();
    let spec = |text: &str| ResourceWrite::Apply(document(ResourceKind::AgentSystem, "a", text));
    write(&registry, &spec(r#"{"graph":{"x":{},"y":{}}}"#)).unwrap();
    assert_eq!(write(&registry, &spec(r#"{ "graph": {"x":{}, "y":{}} }"#)).unwrap().0, ChangeOutcome::Unchanged);
    assert_eq!(write(&registry, &spec(r#"{"graph":{"y":{},"x":{}}}"#)).unwrap().0, ChangeOutcome::Configured);
    assert_eq!(order_of(r#"{"a b": "c \" d"}"#), r#"{"a b":"c \" d"}"#);
}

#[test]
fn what_the_config_has_is_nobody_elses_to_change() {
    let registry = registry();
    let agent = || document(ResourceKind::Agent, "echo", "{}");
    assert!(
        matches!(write(&registry, &ResourceWrite::Create(agent())), Err(Error::Exists(says)) if says.contains("config"))
    );
    for wish in [
        ResourceWrite::Apply(agent()),
        ResourceWrite::Update { document: agent(), expect: None },
        ResourceWrite::Delete { kind: ResourceKind::Agent, name: "echo".into(), expect: None },
    ] {
        assert!(matches!(write(&registry, &wish), Err(Error::Configured(says)) if says.contains("change it there")));
    }
    assert!(matches!(create(&registry, "echo"), Err(Error::Exists(says)) if says.contains("configured Agent")));
}

#[test]
fn there_are_only_so_many() {
    let registry = registry();
    for n in 0..MOST {
        create(&registry, &format!("s{n}")).unwrap();
    }
    assert!(matches!(create(&registry, "more"), Err(Error::Full(says)) if says.contains("delete one first")));
}

#[tokio::test]
async fn a_watcher_hears_what_is_there_then_what_happens_and_may_come_back() {
    let registry = registry();
    create(&registry, "a").unwrap();
    let mut watcher = registry.watch(ResourceKind::AgentSystem, None).unwrap().unwrap();
    let first = watcher.next().await.unwrap();
    assert_eq!((first.happened, &*first.resource.name), (ResourceEventKind::Added, "a"));
    create(&registry, "b").unwrap();
    let second = watcher.next().await.unwrap();
    assert_eq!((second.happened, &*second.resource.name), (ResourceEventKind::Added, "b"));
    write(&registry, &ResourceWrite::Delete { kind: ResourceKind::AgentSystem, name: "a".into(), expect: None })
        .unwrap();
    let third = watcher.next().await.unwrap();
    assert_eq!((third.happened, &*third.resource.name), (ResourceEventKind::Deleted, "a"));
    // A watch from the second event has the third, by its token and by its number alone.
    for token in [second.token.clone(), "2".to_owned()] {
        let mut again = registry.watch(ResourceKind::AgentSystem, Some(&token)).unwrap().unwrap();
        assert_eq!(again.next().await.unwrap().happened, ResourceEventKind::Deleted);
    }
    for unknown in ["99", "x", "3-00000000"] {
        assert!(registry.watch(ResourceKind::AgentSystem, Some(unknown)).unwrap().is_none(), "{unknown}");
    }
    // A new process has no events from before its start.
    let (later, _) = ResourceRegistry::new();
    later.show(&StoredResources { revision: 3, version: 3, made: Vec::new() }, [configured("echo")]);
    assert!(later.watch(ResourceKind::AgentSystem, Some("2")).unwrap().is_none());
    assert!(
        later.watch(ResourceKind::AgentSystem, Some(&third.token)).unwrap().is_some(),
        "nothing has happened since"
    );
}

#[tokio::test]
async fn whoever_is_too_slow_is_told_to_begin_again() {
    let registry = registry();
    let mut slow = registry.watch(ResourceKind::AgentSystem, None).unwrap().unwrap();
    create(&registry, "a").unwrap();
    assert_eq!(slow.next().await.unwrap().happened, ResourceEventKind::Added);
    for n in 0..=REMEMBERED {
        write(
            &registry,
            &ResourceWrite::Apply(document(ResourceKind::AgentSystem, "a", &format!(r#"{{"title":"{n}"}}"#))),
        )
        .unwrap();
    }
    assert!(slow.next().await.is_none());
    assert!(registry.watch(ResourceKind::AgentSystem, Some("1")).unwrap().is_none());
    assert!(registry.watch(ResourceKind::AgentSystem, Some("1000")).unwrap().is_some());
}

#[test]
fn there_are_only_so_many_watchers() {
    let registry = registry();
    let all: Vec<_> = (0..WATCHERS).map(|_| registry.watch(ResourceKind::Agent, None).unwrap().unwrap()).collect();
    assert!(registry.watch(ResourceKind::Agent, None).is_err());
    drop(all);
    assert!(registry.watch(ResourceKind::Agent, None).is_ok());
}

#[tokio::test]
async fn what_is_kept_is_read_back_and_who_was_slower_learns_of_it() {
    let store: Arc<dyn Store> = Arc::new(stores::memory::MemoryStore::new());
    let engine = Engine::offline(store.clone(), model::Limits::default());
    let (first, second) = (registry(), registry());
    let wish = ResourceWrite::Create(document(ResourceKind::AgentSystem, "a", r#"{"z":1,"a":2}"#));
    let draft = |registry: &ResourceRegistry| match registry.draft(&wish, Time(5)).unwrap() {
        ChangePlan::Change(change) => change,
        ChangePlan::Nothing(_) => panic!("it is new"),
    };
    let (one, other) = (draft(&first), draft(&second));
    assert!(first.keep(&engine, &one).await.unwrap());
    assert!(!second.keep(&engine, &other).await.unwrap(), "another was faster");
    let loaded = load(&store).await.unwrap();
    assert_eq!((loaded.revision, revision(&store).await.unwrap(), loaded.made.len()), (1, 1, 1));
    assert_eq!(loaded.made[0].spec.text(), r#"{"z":1,"a":2}"#);
    assert_eq!(loaded.made[0].created_at, Some(Time(5)));
    second.show(&loaded, loaded.made.iter().cloned().map(Arc::new));
    assert!(matches!(second.draft(&wish, Time(6)), Err(Error::Exists(_))));
}
