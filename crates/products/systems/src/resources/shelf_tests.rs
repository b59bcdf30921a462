//! Tests of `shelf`.

use super::*;

fn document(sort: Sort, name: &str, spec: &str) -> Document {
    let text = format!(r#"{{"kind":"{}","metadata":{{"name":"{name}"}},"spec":{spec}}}"#, sort.kind());
    Document::read(&text, None).unwrap()
}

fn configured(name: &str) -> Arc<Resource> {
    Arc::new(Resource::of_config(Sort::Agent, name, Json::parse(r#"{"kind":"echo"}"#).unwrap()))
}

/// A shelf with one agent of the config.
fn shelf() -> Shelf {
    let (shelf, _) = Shelf::new();
    shelf.show(&Loaded::default(), [configured("echo")]);
    shelf
}

/// Makes a change as the binary would, without a store.
fn write(shelf: &Shelf, write: &Write) -> Result<(Verb, Arc<Resource>), Refusal> {
    match shelf.draft(write, Time(1))? {
        Draft::Nothing(known) => Ok((Verb::Unchanged, known)),
        Draft::Change(change) => {
            shelf.show(&Shelf::after(&change), change.made.iter().cloned().chain([configured("echo")]));
            Ok((change.verb, change.subject))
        }
    }
}

fn create(shelf: &Shelf, name: &str) -> Result<(Verb, Arc<Resource>), Refusal> {
    write(shelf, &Write::Create(document(Sort::AgentSystem, name, r#"{"agents":["echo"]}"#)))
}

#[test]
fn versions_count_up_and_a_stale_one_is_refused_with_what_to_do() {
    let shelf = shelf();
    let (verb, first) = create(&shelf, "a").unwrap();
    assert_eq!((verb, first.revision, first.generation), (Verb::Created, 1, 1));
    assert!(matches!(create(&shelf, "a"), Err(Refusal::Exists(says)) if says.contains("update it with PUT")));
    let other = document(Sort::AgentSystem, "a", r#"{"agents":["echo"],"title":"A"}"#);
    let (verb, second) = write(&shelf, &Write::Update { document: other.clone(), expect: Some(1) }).unwrap();
    assert_eq!((verb, second.revision, second.generation), (Verb::Configured, 2, 2));
    let stale = write(&shelf, &Write::Update { document: other.clone(), expect: Some(1) });
    assert!(matches!(stale, Err(Refusal::Stale(says)) if says.contains("version 2 now, not 1; get it again")));
    let (verb, _) = write(&shelf, &Write::Apply(other.clone())).unwrap();
    assert_eq!((verb, shelf.revision()), (Verb::Unchanged, 2));
    let mut labelled = other;
    labelled.labels.insert("x".into(), "y".into());
    let (_, third) = write(&shelf, &Write::Apply(labelled)).unwrap();
    assert_eq!((third.revision, third.generation), (3, 2), "only its labels are others");
    let gone = |expect| Write::Delete { sort: Sort::AgentSystem, name: "a".into(), expect };
    assert!(matches!(write(&shelf, &gone(Some(2))), Err(Refusal::Stale(_))));
    assert_eq!(write(&shelf, &gone(Some(3))).unwrap().0, Verb::Deleted);
    assert!(matches!(write(&shelf, &gone(None)), Err(Refusal::Missing(_))));
}

#[test]
fn the_same_members_in_another_order_are_a_change() {
    let shelf = shelf();
    let spec = |text: &str| Write::Apply(document(Sort::AgentSystem, "a", text));
    write(&shelf, &spec(r#"{"graph":{"x":{},"y":{}}}"#)).unwrap();
    assert_eq!(write(&shelf, &spec(r#"{ "graph": {"x":{}, "y":{}} }"#)).unwrap().0, Verb::Unchanged);
    assert_eq!(write(&shelf, &spec(r#"{"graph":{"y":{},"x":{}}}"#)).unwrap().0, Verb::Configured);
    assert_eq!(order_of(r#"{"a b": "c \" d"}"#), r#"{"a b":"c \" d"}"#);
}

#[test]
fn what_the_config_has_is_nobody_elses_to_change() {
    let shelf = shelf();
    let agent = || document(Sort::Agent, "echo", "{}");
    assert!(matches!(write(&shelf, &Write::Create(agent())), Err(Refusal::Exists(says)) if says.contains("config")));
    for wish in [
        Write::Apply(agent()),
        Write::Update { document: agent(), expect: None },
        Write::Delete { sort: Sort::Agent, name: "echo".into(), expect: None },
    ] {
        assert!(matches!(write(&shelf, &wish), Err(Refusal::Configured(says)) if says.contains("change it there")));
    }
    assert!(matches!(create(&shelf, "echo"), Err(Refusal::Exists(says)) if says.contains("configured Agent")));
}

#[test]
fn there_are_only_so_many() {
    let shelf = shelf();
    for n in 0..MOST {
        create(&shelf, &format!("s{n}")).unwrap();
    }
    assert!(matches!(create(&shelf, "more"), Err(Refusal::Full(says)) if says.contains("delete one first")));
}

#[tokio::test]
async fn a_watcher_hears_what_is_there_then_what_happens_and_may_come_back() {
    let shelf = shelf();
    create(&shelf, "a").unwrap();
    let mut watcher = shelf.watch(Sort::AgentSystem, None).unwrap().unwrap();
    let first = watcher.next().await.unwrap();
    assert_eq!((first.happened, &*first.resource.name), (Happened::Added, "a"));
    create(&shelf, "b").unwrap();
    let second = watcher.next().await.unwrap();
    assert_eq!((second.happened, &*second.resource.name), (Happened::Added, "b"));
    write(&shelf, &Write::Delete { sort: Sort::AgentSystem, name: "a".into(), expect: None }).unwrap();
    let third = watcher.next().await.unwrap();
    assert_eq!((third.happened, &*third.resource.name), (Happened::Deleted, "a"));
    // Who comes back with the second hears the third, and who comes back with a number alone, too.
    for token in [second.token.clone(), "2".to_owned()] {
        let mut again = shelf.watch(Sort::AgentSystem, Some(&token)).unwrap().unwrap();
        assert_eq!(again.next().await.unwrap().happened, Happened::Deleted);
    }
    for unknown in ["99", "x", "3-00000000"] {
        assert!(shelf.watch(Sort::AgentSystem, Some(unknown)).unwrap().is_none(), "{unknown}");
    }
    // A process that has just begun knows nothing of what was before.
    let (later, _) = Shelf::new();
    later.show(&Loaded { revision: 3, version: 3, made: Vec::new() }, [configured("echo")]);
    assert!(later.watch(Sort::AgentSystem, Some("2")).unwrap().is_none());
    assert!(later.watch(Sort::AgentSystem, Some(&third.token)).unwrap().is_some(), "nothing has happened since");
}

#[tokio::test]
async fn whoever_is_too_slow_is_told_to_begin_again() {
    let shelf = shelf();
    let mut slow = shelf.watch(Sort::AgentSystem, None).unwrap().unwrap();
    create(&shelf, "a").unwrap();
    assert_eq!(slow.next().await.unwrap().happened, Happened::Added);
    for n in 0..=REMEMBERED {
        write(&shelf, &Write::Apply(document(Sort::AgentSystem, "a", &format!(r#"{{"title":"{n}"}}"#)))).unwrap();
    }
    assert!(slow.next().await.is_none());
    assert!(shelf.watch(Sort::AgentSystem, Some("1")).unwrap().is_none());
    assert!(shelf.watch(Sort::AgentSystem, Some("1000")).unwrap().is_some());
}

#[test]
fn there_are_only_so_many_watchers() {
    let shelf = shelf();
    let all: Vec<_> = (0..WATCHERS).map(|_| shelf.watch(Sort::Agent, None).unwrap().unwrap()).collect();
    assert!(shelf.watch(Sort::Agent, None).is_err());
    drop(all);
    assert!(shelf.watch(Sort::Agent, None).is_ok());
}

#[tokio::test]
async fn what_is_kept_is_read_back_and_who_was_slower_learns_of_it() {
    let store: Arc<dyn Store> = Arc::new(stores::memory::MemoryStore::new());
    let engine = Engine::offline(store.clone(), model::Limits::default());
    let (first, second) = (shelf(), shelf());
    let wish = Write::Create(document(Sort::AgentSystem, "a", r#"{"z":1,"a":2}"#));
    let draft = |shelf: &Shelf| match shelf.draft(&wish, Time(5)).unwrap() {
        Draft::Change(change) => change,
        Draft::Nothing(_) => panic!("it is new"),
    };
    let (one, other) = (draft(&first), draft(&second));
    assert!(first.keep(&engine, &one).await.unwrap());
    assert!(!second.keep(&engine, &other).await.unwrap(), "another was faster");
    let loaded = load(&store).await.unwrap();
    assert_eq!((loaded.revision, revision(&store).await.unwrap(), loaded.made.len()), (1, 1, 1));
    assert_eq!(loaded.made[0].spec.text(), r#"{"z":1,"a":2}"#);
    assert_eq!(loaded.made[0].created_at, Some(Time(5)));
    second.show(&loaded, loaded.made.iter().cloned().map(Arc::new));
    assert!(matches!(second.draft(&wish, Time(6)), Err(Refusal::Exists(_))));
}
